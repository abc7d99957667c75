"""The actions that a module writes into the audit log, read from its source.

An action that cannot be read fails, so that every new form of writing one is noticed.
"""

import ast

# The position of the action among the arguments of each function.
_WRITERS = {"entry": 0, "audit_entry": 0, "entry_for_person": 0, "Entry": 1}


def actions_in(source: str) -> set[str]:
    if "organizations" not in source and "entry_for_person" not in source:
        return set()
    module = ast.parse(source)
    constants = {
        target.id: node.value
        for node in module.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    actions: set[str] = set()
    for call, parameters in _calls(module, frozenset()):
        action = _argument(call)
        if action is not None and not (isinstance(action, ast.Name) and action.id in parameters):
            actions |= _texts(action, constants)
    return actions


def _calls(node: ast.AST, parameters: frozenset[str]) -> list[tuple[ast.Call, frozenset[str]]]:
    """Each call with the parameters of its enclosing functions: a wrapper passes an action on."""
    calls = []
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        arguments = node.args
        names = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        parameters = parameters | {each.arg for each in names if node.name in _WRITERS}
    if isinstance(node, ast.Call):
        calls.append((node, parameters))
    for child in ast.iter_child_nodes(node):
        calls += _calls(child, parameters)
    return calls


def _argument(call: ast.Call) -> ast.expr | None:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name not in _WRITERS:
        return None
    keyword = next((each.value for each in call.keywords if each.arg == "action"), None)
    position = _WRITERS[name]
    return call.args[position] if len(call.args) > position else keyword


def _texts(action: ast.expr, constants: dict[str, ast.expr]) -> set[str]:
    if isinstance(action, ast.IfExp):
        return _texts(action.body, constants) | _texts(action.orelse, constants)
    if isinstance(action, ast.Name) and action.id in constants:
        return _texts(constants[action.id], constants)
    readable = isinstance(action, ast.Constant) and isinstance(action.value, str)
    assert readable, f"line {action.lineno}: write the action as a text or a constant"
    return {str(ast.literal_eval(action))}
