"""The fuzzer's own reading of expressions: a small tree by way of Python's `ast`, evaluated in any arithmetic."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

NEXT = "__next"


@dataclass(frozen=True)
class Number:
    """A literal."""

    value: float


@dataclass(frozen=True)
class Name:
    """A variable or series; a trailing ' marks its next value, and lag(x, k) is a name as it is written."""

    name: str


@dataclass(frozen=True)
class Sum:
    """The sum of the parts."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Scaled:
    """factor · inner."""

    factor: float
    inner: Node


@dataclass(frozen=True)
class Extreme:
    """The largest or the smallest of the parts."""

    largest: bool
    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Absolute:
    """|inner|."""

    inner: Node


@dataclass(frozen=True)
class Product:
    """factor · inner, or inner / factor; the factor reads series alone, and one that divides is positive."""

    factor: Node
    inner: Node
    divides: bool = False


Node = Number | Name | Sum | Scaled | Extreme | Absolute | Product


@dataclass(frozen=True)
class Row:
    """node <= 0, or node == 0; `defines` is (name, node) if the row reads `name == expression without name`."""

    text: str
    node: Node
    equality: bool
    defines: tuple[str, Node] | None = None


@dataclass(frozen=True)
class Algebra:
    """What `evaluate` needs beside +, * and /: numbers from literals, and the largest of several values."""

    number: Callable[[float], Any]
    largest: Callable[[list[Any]], Any]


def evaluate(node: Node, values: Mapping[str, Any], algebra: Algebra) -> Any:
    """The value of a tree; `values` maps names to whatever the algebra computes with."""
    match node:
        case Number(value):
            return algebra.number(value)
        case Name(name):
            return values[name]
        case Sum(parts):
            total = evaluate(parts[0], values, algebra)
            for part in parts[1:]:
                total = total + evaluate(part, values, algebra)
            return total
        case Scaled(factor, inner):
            return evaluate(inner, values, algebra) * algebra.number(factor)
        case Product(factor, inner, divides):
            value, by = evaluate(inner, values, algebra), evaluate(factor, values, algebra)
            return value / by if divides else value * by
        case Absolute(inner):
            value = evaluate(inner, values, algebra)
            return algebra.largest([value, value * algebra.number(-1.0)])
        case Extreme(largest, parts):
            sign = algebra.number(1.0 if largest else -1.0)
            return algebra.largest([evaluate(part, values, algebra) * sign for part in parts]) * sign


def parse(text: str) -> Node:
    """The tree of an expression as problem files write it; ValueError for what the fuzzer never writes."""
    return _node(ast.parse(_pythonic(text), mode="eval").body)


def parse_row(text: str) -> Row:
    """One comparison (chains are not written by the fuzzer)."""
    body = ast.parse(_pythonic(text), mode="eval").body
    if not isinstance(body, ast.Compare) or len(body.ops) != 1:
        raise ValueError(f"not a simple comparison: {text}")
    left, right = _node(body.left), _node(body.comparators[0])
    equality = isinstance(body.ops[0], ast.Eq)
    if isinstance(body.ops[0], ast.GtE):
        left, right = right, left
    defines = (left.name, right) if equality and isinstance(left, Name) and left.name not in names(right) else None
    return Row(text, Sum((left, Scaled(-1.0, right))), equality, defines)


def names(node: Node) -> set[str]:
    """Every variable that the tree reads, primes included."""
    return {part.name for part in walk(node) if isinstance(part, Name)}


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it."""
    yield node
    for child in children(node):
        yield from walk(child)


def children(node: Node) -> tuple[Node, ...]:
    """What stands directly below a node."""
    match node:
        case Sum(parts) | Extreme(_, parts):
            return parts
        case Scaled(_, inner) | Absolute(inner):
            return (inner,)
        case Product(factor, inner):
            return inner, factor
    return ()


def rebuilt(node: Node, change: Callable[[Node], Node]) -> Node:
    """The node with every child changed."""
    match node:
        case Sum(parts):
            return Sum(tuple(change(part) for part in parts))
        case Extreme(largest, parts):
            return Extreme(largest, tuple(change(part) for part in parts))
        case Scaled(factor, inner):
            return Scaled(factor, change(inner))
        case Absolute(inner):
            return Absolute(change(inner))
        case Product(by, inner, divides):
            return Product(change(by), change(inner), divides)
    return node


def lag_of(name: str) -> tuple[str, int] | None:
    """The variable and the steps of a name that is written lag(x, k)."""
    found = re.fullmatch(r"lag\((\w+), (\d+)\)", name)
    return None if found is None else (found[1], int(found[2]))


def write(node: Node) -> str:
    """The text of a tree."""
    match node:
        case Number(value):
            return repr(float(value)) if value >= 0 else f"(-{-float(value)!r})"
        case Name(name):
            return name
        case Sum(parts):
            return "(" + " + ".join(write(part) for part in parts) + ")"
        case Scaled(factor, inner):
            return f"{write(Number(factor))}*{_held(inner)}"
        case Product(by, inner, divides):
            return f"{_held(inner)}/{_held(by)}" if divides else f"{_held(by)}*{_held(inner)}"
        case Absolute(inner):
            return f"abs({write(inner)})"
        case Extreme(largest, parts):
            return ("max(" if largest else "min(") + ", ".join(write(part) for part in parts) + ")"


def _held(node: Node) -> str:
    """Its text as a factor or divisor."""
    return f"({write(node)})" if isinstance(node, Scaled | Product) else write(node)


def _pythonic(text: str) -> str:
    return re.sub(r"(\w+)'", rf"\1{NEXT}", text.strip())


def _node(tree: ast.expr) -> Node:
    match tree:
        case ast.Constant(value=int() | float() as value):
            return Number(float(value))
        case ast.Name(id=name):
            return Name(name.removesuffix(NEXT) + "'" if name.endswith(NEXT) else name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = _node(operand)
            return Number(-inner.value) if isinstance(inner, Number) else Scaled(-1.0, inner)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return Sum((_node(left), _node(right)))
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return Sum((_node(left), Scaled(-1.0, _node(right))))
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _product(_node(left), _node(right))
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return Product(_node(right), _node(left), divides=True)
        case ast.Call(func=ast.Name(id="lag"), args=[ast.Name(id=name), ast.Constant(value=int() as steps)]):
            return Name(f"lag({name}, {steps})")
        case ast.Call(func=ast.Name(id="abs"), args=[argument]):
            return Absolute(_node(argument))
        case ast.Call(func=ast.Name(id="min" | "max" as which), args=arguments):
            return Extreme(which == "max", tuple(_node(argument) for argument in arguments))
    raise ValueError(f"not an expression of the fuzzer: {ast.unparse(tree)}")


def _product(left: Node, right: Node) -> Node:
    """The factor stands first: a number, or what reads series alone."""
    if isinstance(left, Number):
        return Scaled(left.value, right)
    if isinstance(right, Number):
        return Scaled(right.value, left)
    return Product(left, right)
