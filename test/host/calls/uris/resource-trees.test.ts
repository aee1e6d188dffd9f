import assert from "node:assert/strict";
import { it } from "node:test";
import { post, request, startTestBerth } from "../../../support/berth.ts";

const TREE = `
const nodes: Record<string, { text: string; children: string[] }> = {
  root: { text: "The whole", children: ["left", "right"] },
  left: { text: "One half", children: ["leaf"] },
  right: { text: "The other half", children: [] },
  leaf: { text: "The smallest part", children: [] },
};
/**
 * Where the tree begins.
 * @resource tree://main/node/root application/json
 */
export function root() { return node("root"); }
/**
 * One node, with the addresses of those below it.
 * @resource tree://main/node/{id} application/json
 */
export function node(id: string) {
  const found = Object.hasOwn(nodes, id) ? nodes[id] : undefined;
  return found && { text: found.text, children: found.children.map((child) => "tree://main/node/" + child) };
}
`;

it("a tree of content is listed by its root, and read from there node by node (S11)", async (t) => {
  const berth = await startTestBerth({ texts: { "tree.ts": TREE } });
  t.after(() => berth.close());
  const ask = async (method: string, params = {}) =>
    (await post(`${berth.url}/mcp/tree`, request(method, params))).body;
  const { resources } = (await ask("resources/list")).result;
  const [start] = resources;
  assert.deepEqual([resources.length, start.name, start.mimeType], [1, "root", "application/json"]);
  const { resourceTemplates } = (await ask("resources/templates/list")).result;
  assert.deepEqual(
    resourceTemplates.map(({ uriTemplate }: { uriTemplate: string }) => uriTemplate),
    ["tree://main/node/{id}"],
  );

  const read: string[] = [];
  const open = [start.uri];
  for (const uri of open) {
    const [content] = (await ask("resources/read", { uri })).result.contents;
    assert.equal(content.uri, uri);
    const { text, children } = JSON.parse(content.text);
    read.push(text);
    open.push(...children);
  }
  assert.deepEqual(read, ["The whole", "One half", "The other half", "The smallest part"]);
  const missing = await ask("resources/read", { uri: "tree://main/node/twig" });
  assert.match(missing.error.message, /No such resource/);
});
