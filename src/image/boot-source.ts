import { rawBlock, type Block, type Cid } from "../lib/cid.ts";
import type { Problem } from "../lib/problem.ts";
import { readFields, serverNameProblem, variableNameProblem } from "../entry/fields.ts";
import { MCPS_FILE } from "./image.ts";
import { problemAt, type JsonNode } from "../lib/json-source.ts";
import type { Reference } from "./mcps-source.ts";
import { isFault, type SourceFolder } from "./source-folder.ts";

const GENERATED = "GENERATED:";

/** A `<name>.boot.source.json`: the servers and variables that an image starts with. */
export interface BootSource {
  readonly servers: readonly BootServer[];
  readonly variables: readonly BootVariable[];
  readonly references: readonly Reference[];
  readonly problems: readonly Problem[];
}

interface BootServer {
  readonly name: string;
  /** As written: a path in the folder of sources, or a CID. */
  readonly target: string;
  readonly enabled: boolean;
}

export interface BootVariable {
  readonly name: string;
  /** The value's bytes; `generated` stands for the generated `mcps.json`. */
  readonly value: Block | "generated";
  readonly enabled: boolean;
}

export function readBootSource(root: JsonNode, folder: SourceFolder): BootSource {
  const problems: Problem[] = [];
  const fields = readFields(root, { servers: "list", variables: "list" }, "A boot source", problems);
  const serverNodes = fields.servers?.elements ?? [];
  const variableNodes = fields.variables?.elements ?? [];

  const names = uniqueNames(problems);
  const references: Reference[] = [];
  const servers = serverNodes.flatMap((node): BootServer[] => {
    const types = { name: "text", definition_cid: "text", enabled: "boolean" } as const;
    const { name, definition_cid: definition, enabled } = readFields(node, types, "A server", problems);
    requireField(node, name, "A server", "name", problems);
    requireField(node, definition, "A server", "definition_cid", problems);
    if (name) names.check("server", name, serverNameProblem);
    if (!name || !definition) return [];
    const [server, target] = [name.value as string, definition.value as string];
    references.push({ kind: "definition", server, target, at: definition.at });
    return [{ name: server, target, enabled: enabled?.value !== false }];
  });

  const variables = variableNodes.flatMap((node): BootVariable[] => {
    const types = { name: "text", definition: "text", definition_cid: "text", enabled: "boolean" } as const;
    const read = readFields(node, types, "A variable", problems);
    requireField(node, read.name, "A variable", "name", problems);
    if (read.name) names.check("variable", read.name, variableNameProblem);
    const value = readValue(node, read, folder, problems);
    if (!read.name || !value) return [];
    return [{ name: read.name.value as string, value, enabled: read.enabled?.value !== false }];
  });
  return { servers, variables, references, problems };
}

/** A variable's value is written out as `definition`, or stands in the file that `definition_cid` names. */
function readValue(
  node: JsonNode,
  { definition, definition_cid: file }: { definition?: JsonNode; definition_cid?: JsonNode },
  folder: SourceFolder,
  problems: Problem[],
): BootVariable["value"] | undefined {
  if (definition && file) {
    const message = `A variable has either "definition", its value, or "definition_cid", the file that holds it`;
    problems.push(problemAt(file.at, "two-values", message));
    return undefined;
  }
  if (file) {
    const found = folder.read(file.value as string);
    if (!isFault(found)) return found.block;
    problems.push(problemAt(file.at, found.code, found.message));
    return undefined;
  }
  if (!definition) {
    requireField(node, definition, "A variable", "definition", problems);
    return undefined;
  }
  const text = definition.value as string;
  if (!text.startsWith(GENERATED)) return rawBlock(text);
  if (text === GENERATED + MCPS_FILE) return "generated";
  const message = `"${text}" is not generated; the only such value is "${GENERATED}${MCPS_FILE}"`;
  problems.push(problemAt(definition.at, "unknown-generated", message));
  return undefined;
}

function requireField(
  node: JsonNode,
  field: JsonNode | undefined,
  what: string,
  name: string,
  problems: Problem[],
): void {
  // A field of the wrong type already has its problem, and so does a node that is no object.
  if (field || !node.members || node.members.has(name)) return;
  problems.push(problemAt(node.at, "missing-field", `${what} needs the field "${name}"`));
}

function uniqueNames(problems: Problem[]) {
  const seen = new Map<string, number>();
  return {
    check(kind: string, node: JsonNode, problemOf: (name: string) => string | undefined): void {
      const name = node.value as string;
      const wrong = problemOf(name);
      if (wrong) problems.push(problemAt(node.at, "bad-name", wrong));
      const first = seen.get(`${kind}/${name}`);
      if (first === undefined) seen.set(`${kind}/${name}`, node.at.line);
      else {
        const message = `The ${kind} "${name}" stands here a second time; the first is on line ${first}`;
        problems.push(problemAt(node.at, "duplicate-name", message));
      }
    },
  };
}

/** The CIDs that a boot source's own variables stand for. */
export function valueCid(variable: BootVariable, mcps: Cid): Cid {
  return variable.value === "generated" ? mcps : variable.value.cid;
}
