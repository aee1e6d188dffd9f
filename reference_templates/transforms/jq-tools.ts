import type { GeneratedTool, TransformContext } from "berth";

/**
 * Ready-made queries for the server `jq`: each is a tool of its own, carried out by the function `jq` with the filter
 * already chosen. A model that does not know the language of jq can still use them.
 */
const recipes: { name: string; title: string; description: string; filter: string; takes: string }[] = [
  {
    name: "keys",
    title: "Keys",
    description: "Lists the path of every value in a JSON document, such as `.items[].price`, each once.",
    filter: '[paths | map(if type == "number" then "[]" else ".\\(.)" end) | join("")] | unique[]',
    takes: "The JSON document.",
  },
  {
    name: "to_csv",
    title: "To CSV",
    description: "Turns a list of objects into CSV: a line of column names, and one line for each object.",
    filter:
      '(map(keys_unsorted) | add | unique) as $names | $names, (.[] | [.[$names[]] | if type == "object" or type == "array" then tojson else . end]) | @csv',
    takes: "The list of objects.",
  },
  {
    name: "count_by",
    title: "Count by",
    description: "Counts the elements of a list by their value.",
    filter: "group_by(.) | map({ value: .[0], count: length }) | sort_by(-.count)",
    takes: "The list.",
  },
];

/** As many of the recipes as the definition can carry out. */
export function generateTools(serverName: string, { discovered }: TransformContext): GeneratedTool[] {
  const jq = discovered.functions.find(({ name }) => name === serverName);
  if (!jq) throw new Error(`The definition of "${serverName}" has no function of that name.`);
  return recipes.map(({ name, title, description, filter, takes }) => ({
    name,
    title,
    description,
    function: jq.name,
    arguments: { filter, rawOutput: true, compact: true },
    inputSchema: {
      type: "object",
      properties: { input: { description: `${takes} A text is read as JSON; any other value is taken as it is.` } },
      required: ["input"],
      additionalProperties: false,
    },
  }));
}
