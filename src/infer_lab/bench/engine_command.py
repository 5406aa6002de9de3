"""What the commands of `infer-lab bench` share: their settings, one engine for several rows, and at the end table, record and last line."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from rich.console import Console

from infer_lab.bench import engine_measure, engine_rows
from infer_lab.bench.engine_rows import Row, Rows
from infer_lab.bench.engine_work import Floor
from infer_lab.bench.environment import capture, repository_root, sanitize
from infer_lab.bench.record import Record
from infer_lab.engine.build import resolve_device, resolve_dtype
from infer_lab.engine_config import EngineConfig
from infer_lab.errors import InferLabError, UserError
from infer_lab.llm import LLM
from infer_lab.models.checkpoint import open_checkpoint

ON_CPU = "dummy:smollm2-135m"
BUDGET = 16_384
"""Tokens of a step on a GPU: what the peers' records have."""
T = TypeVar("T")


@dataclass
class EngineBench:
    """command: its name. model: None is on_gpu, or a small shape on a CPU. settings: "<field of EngineConfig>=<value>".

    shown: the rows so far. failed: why others are not there. workload: what a record says of it."""

    command: str
    model: str | None
    on_gpu: str
    device: str
    dtype: str
    settings: Sequence[str]
    record: bool
    resume: bool
    quick: bool
    shown: list[Row] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    workload: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        where = resolve_device(self.device)
        self.uses_gpu = where.type == "cuda"
        if self.quick and self.record and self.uses_gpu:
            raise UserError("the figures of --quick mean nothing; leave out --quick to record a GPU's")
        self.device, self._dtype = str(where), resolve_dtype(self.dtype, where)
        self.name = self.model or (self.on_gpu if self.uses_gpu else ON_CPU)
        self.shape = open_checkpoint(self.name).config
        self._engine = dict(_setting(text) for text in self.settings)
        environment = capture(self.device)
        same = {
            "model": self.name, "device": environment.slug, "dtype": str(self._dtype), "quick": self.quick, "engine": self._engine,
            "commit": environment.git["commit"],
        }  # fmt: skip
        self._rows = Rows(Rows.place(self.command, same), self.resume)

    @property
    def title_of_model(self) -> str:
        return f"{self.shape.name} in {str(self._dtype).removeprefix('torch.')}"

    def by_size(self, on_gpu: T, on_cpu: T, quick: T) -> T:
        return quick if self.quick else on_gpu if self.uses_gpu else on_cpu

    def rows(
        self, names: Sequence[str], options: Mapping[str, Any], measure: Callable[[str, LLM, Floor], Row], *, optional: bool = False
    ) -> None:
        """The rows of these names, by one engine, which is made if one of them is missing. A row that fails is reported, and the others
        are measured. optional: an engine that cannot be made fails its rows only."""
        limit = self._rows.get("limit", lambda: engine_measure.limits(self.device, self._dtype, self.quick))
        missing = [name for name in names if name not in self._rows]
        if missing:
            config: dict[str, Any] = {"model": self.name, "device": self.device, "dtype": self.dtype, "seed": 0}
            config |= {"max_num_batched_tokens": BUDGET} if self.uses_gpu else {}
            config = config | dict(options) | self._engine
            say(f"loading {self.name}" + (f" as {config['quantization']}" if config.get("quantization") else ""))
            try:
                with LLM(**config) as llm:
                    floor = engine_measure.floor_of(llm, limit)
                    for name in missing:
                        self._measure(name, measure, llm, floor)
            except UserError as error:
                if not optional:
                    raise
                self._fail(missing, error)
            except (InferLabError, RuntimeError) as error:
                self._fail(missing, error)
        self.shown += [self._rows[name] for name in names if name in self._rows]

    def _measure(self, name: str, measure: Callable[[str, LLM, Floor], Row], llm: LLM, floor: Floor) -> None:
        say(f"{name} …")
        try:
            row = self._rows.get(name, lambda: measure(name, llm, floor))
        except (InferLabError, RuntimeError) as error:
            self._fail([name], error)
            return
        figure, found = next(iter(row.figures.items()))
        say(f"{name}: {figure} {found.median:,.2f} {found.unit}" + (f", {found.share:.0%} of the floor" if found.share else ""))

    def _fail(self, names: Sequence[str], error: Exception) -> None:
        for name in names:
            if name not in self._rows:
                self.failed.setdefault(name, str(error)[:300])
                say(f"{name} failed: {error}")

    def finish(self, title: str) -> int:
        """Table, record and the last line. Exit code 1 if a row failed; a record is written of those that did not."""
        title = f"{title}, {self.title_of_model}"
        console = Console(width=None if sys.stdout.isatty() else 160)
        console.print(engine_rows.table(title, self.shown))
        for row in self.shown:
            if row.timeline:
                console.print(engine_rows.timeline_table(row))
        limit = self._rows["limit"]
        path = self._write(title, limit) if self.record and self.shown else None
        last = {"command": self.command, "model": self.name, "device": self.device, "quick": self.quick, "record": path}
        last |= self.workload | engine_rows.summary([limit, *self.shown]) | ({"failed": self.failed} if self.failed else {})
        print(json.dumps(last))
        return 1 if self.failed else 0

    def _write(self, title: str, limit: Row) -> str:
        root = repository_root()
        sources = [str(path.relative_to(root)) for pattern in engine_rows.SOURCES for path in root.glob(pattern)]
        record = Record(
            f"engine-{self.command}-{sanitize(self.shape.name)}", title, self.device, sources=sources,
            workload={"model": self.name, "quick": self.quick, **self.workload, **self._engine},
            command=shlex.join(["infer-lab", *sys.argv[1:]]),
        )  # fmt: skip
        peer = engine_rows.Peer.of(root, record.environment.slug, self.shape.name)
        engine_rows.fill(record, title, [limit, *self.shown], peer)
        return str(record.write())


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _setting(text: str) -> tuple[str, Any]:
    """ "cuda_graphs=false" as ("cuda_graphs", False); UserError for what EngineConfig does not have."""
    name, equals, value = text.partition("=")
    if not equals or name not in EngineConfig.__dataclass_fields__:
        raise UserError(f"--set takes <field>=<value>, and no field of EngineConfig is called {name!r}")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value
