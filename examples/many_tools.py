"""An agent with 72 tools, which sees two search tools and loads the one that it needs."""

from wieldy import Call, Toolbox
from wieldy.agent import Agent
from wieldy.testing import ScriptedModel
from wieldy.tools.tool_search import add_search_tools

PLACES = ("mail", "calendar", "files", "wiki", "billing", "orders", "customers", "stock")
ACTIONS = ("create", "list", "show", "update", "delete", "archive", "export", "share", "count")

box = Toolbox()
for place in PLACES:
    for action in ACTIONS:
        box.add(
            lambda id="", place=place, action=action: f"{place}: {action} {id} is done",
            name=f"{place}_{action}",
            description=f"{action.capitalize()} entries of the {place}.",
            presets={"place": place, "action": action},
        )
add_search_tools(box, budget=4_000)

# A scripted model stands for a real one, such as Agent("openai:gpt-5.4").
model = ScriptedModel(
    [
        [Call("search_tools", {"query": "put old orders away"})],
        [Call("load_tools", {"names": ["orders_archive"]})],
        [Call("orders_archive", {"id": "1907"})],
        "Order 1907 is in the archive.",
    ]
)
agent = Agent(model, toolbox=box, tool_strategy="native").use_tools(box.names)

print(f"{len(box)} tools would take {box.cost().total:,} tokens in each request")
print(agent.input("Please archive order 1907.").start())
for request in model.requests:
    print(request.tool_names)

# What it prints:
# > 74 tools would take 3,786 tokens in each request
# > Order 1907 is in the archive.
# > ['search_tools', 'load_tools']
# > ['search_tools', 'load_tools']
# > ['search_tools', 'load_tools', 'orders_archive']
# > ['search_tools', 'load_tools', 'orders_archive']
