"""For who writes: new cards, lessons and labs from the content map, mechanical repairs, and a preview that follows the editor."""
