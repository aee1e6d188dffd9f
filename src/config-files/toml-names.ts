import { traverseNodes, type AST } from "toml-eslint-parser";

/** Names with a meaning in JavaScript. No client has a setting of such a name. */
export const RESERVED_NAMES: ReadonlySet<string> = new Set(["__proto__", "constructor", "prototype"]);

/** The first key with a reserved name: `getStaticTOMLValue` would change the prototype of all objects. */
export function findReservedName(program: AST.TOMLProgram): AST.TOMLBare | AST.TOMLQuoted | undefined {
  let found: AST.TOMLBare | AST.TOMLQuoted | undefined;
  traverseNodes(program, {
    enterNode(node) {
      if (node.type !== "TOMLBare" && node.type !== "TOMLQuoted") return;
      if (RESERVED_NAMES.has(node.type === "TOMLBare" ? node.name : node.value)) found ??= node;
    },
    leaveNode() {},
  });
  return found;
}
