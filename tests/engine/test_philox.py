from __future__ import annotations

import torch

from infer_lab.sample.philox import philox, uniforms

# Known answers published with Random123 for philox4x32, 10 rounds: (counter, key, result)
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


def test_philox_gives_the_published_answers() -> None:
    for counter, key, expected in KNOWN:
        words = philox(tuple(torch.tensor(c) for c in counter), tuple(torch.tensor(k) for k in key))  # type: ignore[arg-type]
        assert tuple(int(w) for w in words) == expected


def test_numbers_lie_strictly_between_0_and_1_and_fill_the_interval() -> None:
    u = uniforms(torch.tensor([7]), torch.tensor([3]), 200_000)
    assert 0 < float(u.min()) < 1e-4 and 1 - 1e-4 < float(u.max()) < 1
    assert abs(float(u.mean()) - 0.5) < 5e-3 and abs(float(u.var()) - 1 / 12) < 2e-3


def test_a_number_depends_on_seed_position_and_token_alone() -> None:
    seeds, positions = torch.tensor([1, 2, 1, 2**63 - 1]), torch.tensor([5, 5, 6, 5])
    together = uniforms(seeds, positions, 1003)
    for i in range(4):
        assert torch.equal(uniforms(seeds[i : i + 1], positions[i : i + 1], 1003)[0], together[i])
    assert torch.equal(uniforms(seeds[:1], positions[:1], 500)[0], together[0, :500]), "a larger vocabulary changes no token's number"
    assert len({float(row[0]) for row in together}) == 4


def test_the_upper_half_of_the_seed_counts() -> None:
    low, high = torch.tensor([5]), torch.tensor([5 + 2**32])
    assert not torch.equal(uniforms(low, torch.tensor([0]), 8), uniforms(high, torch.tensor([0]), 8))
