"""Rows of a graph: edges point down, except those that close a cycle."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from agentjobs_dependencies.graph.layers import arrange

MAX_WIDTH = 500.0


@st.composite
def graphs(draw):
    widths = draw(st.lists(st.floats(20, 240), min_size=1, max_size=25))
    nodes = st.integers(0, len(widths) - 1)
    weights = draw(st.dictionaries(st.tuples(nodes, nodes), st.integers(1, 9), max_size=60))
    return widths, weights


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_every_node_has_a_place_and_edges_point_down_except_marked_ones(graph):
    widths, weights = graph
    layers = arrange(widths, weights, MAX_WIDTH)
    row_of = {item: at for at, row in enumerate(layers.rows) for item in row}
    assert sorted(item for row in layers.rows for item in row) == list(range(len(layers.centers)))
    for start, end in weights:
        if start != end:
            is_backward = (start, end) in layers.backward
            assert (row_of[start] > row_of[end]) == is_backward
            assert is_backward <= {start, end}.issubset(layers.in_cycle)
            kinds = (layers.backward, layers.implied, layers.routes)
            assert sum((start, end) in kind for kind in kinds) == 1
    assert layers.returns.keys() <= layers.backward
    two_way = {edge for edge in layers.backward if edge[::-1] in layers.routes}
    assert bool(layers.returns) <= bool(layers.backward) <= bool({*layers.returns, *two_way})
    assert two_way.isdisjoint(layers.returns)
    reversed_returns = {(end, start): route for (start, end), route in layers.returns.items()}
    for (upper, lower), route in [*layers.routes.items(), *reversed_returns.items()]:
        assert (route[0], route[-1]) == (upper, lower)
        assert [row_of[item] for item in route] == list(range(row_of[upper], row_of[lower] + 1))


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_items_of_a_row_do_not_overlap_and_rows_are_filled_up_to_the_width(graph):
    widths, weights = graph
    layers = arrange(widths, weights, MAX_WIDTH)
    for row in layers.rows:
        own = [item for item in row if item < len(widths)]
        assert sum(widths[item] for item in own) <= max(MAX_WIDTH, *widths) + 0.01
        for left, right in pairwise(own):
            gap = layers.centers[right] - layers.centers[left]
            assert gap >= (widths[left] + widths[right]) / 2 - 0.01
        for left, right in pairwise(row):
            assert layers.centers[left] < layers.centers[right]


@settings(max_examples=20, deadline=None)
@given(graphs(), st.randoms())
def test_the_order_of_edges_does_not_matter(graph, random):
    widths, weights = graph
    shuffled = list(weights.items())
    random.shuffle(shuffled)
    assert arrange(widths, dict(shuffled), MAX_WIDTH) == arrange(widths, weights, MAX_WIDTH)


def test_a_cycle_is_cut_at_its_lightest_edge():
    layers = arrange([50.0] * 4, {(0, 1): 5, (1, 2): 7, (2, 0): 1, (2, 3): 1}, MAX_WIDTH)
    assert layers.backward == {(2, 0)}
    assert layers.in_cycle == {0, 1, 2}
    nodes = [[item for item in row if item < 4] for row in layers.rows]
    assert nodes == [[0], [1], [2], [3]]


def test_only_the_backward_edges_that_show_all_cycles_have_a_route():
    edges = {(at, at + 1): 9 for at in range(4)} | {(4, 0): 1, (3, 1): 1, (4, 2): 1}
    layers = arrange([50.0] * 5, edges, MAX_WIDTH)
    assert layers.backward == {(4, 0), (3, 1), (4, 2)}
    assert set(layers.returns) == {(4, 0)}
    assert layers.returns[4, 0][0] == 0
    assert layers.in_cycle == {0, 1, 2, 3, 4}


def test_a_backward_edge_shares_the_route_of_its_reverse():
    layers = arrange([50.0] * 2, {(0, 1): 2, (1, 0): 1}, MAX_WIDTH)
    assert layers.backward == {(1, 0)}
    assert set(layers.routes) == {(0, 1)}
    assert layers.returns == {}


def test_an_edge_that_follows_from_others_is_implied():
    layers = arrange([50.0] * 3, {(0, 1): 1, (1, 2): 1, (0, 2): 1}, MAX_WIDTH)
    assert layers.implied == {(0, 2)}
    assert set(layers.routes) == {(0, 1), (1, 2)}


def test_nodes_are_ordered_without_needless_crossings():
    # 0 and 1 point to 3 and 2: a straight order of the rows would cross.
    layers = arrange([50.0] * 4, {(0, 3): 1, (1, 2): 1}, 100.0)
    (upper, lower) = layers.rows
    assert [upper.index(0) < upper.index(1)] == [lower.index(3) < lower.index(2)]


def test_nodes_without_edges_are_below_the_others():
    layers = arrange([50.0] * 4, {(2, 3): 1}, MAX_WIDTH)
    assert layers.rows == ((2,), (3,), (0, 1))
    assert arrange([], {}, MAX_WIDTH).rows == ()
