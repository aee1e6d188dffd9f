import { writtenUpstream } from "../entry/command-fields.ts";
import { cidFields, entryTypes } from "../entry/entry-fields.ts";
import { readSourceFields, SCHEMA_KEY, serverNameProblem } from "../entry/fields.ts";
import { jsonBlock, type Block, type Cid } from "../lib/cid.ts";
import { nodeAt, parseJsonSource, problemAt, type JsonNode, type SourcePosition } from "../lib/json-source.ts";
import type { Json, JsonObject } from "../lib/json.ts";
import type { Problem } from "../lib/problem.ts";
import { isFault, type SourceFolder } from "./source-folder.ts";
import { readUpstreamsLock, findLockProblems } from "./upstreams-lock.ts";

/** Sources contain no CID of a contract, which comes from the lock; an entry with `config_cid` has no other field. */
const { contract_cid: _contract, config_cid: _config, ...allowedTypes } = entryTypes;
const sourceFields = { ...allowedTypes, tools: "objects", resources: "objects", prompts: "objects" } as const;

/** A file named by a source, which the image replaces by a CID. */
export interface Reference {
  readonly kind: "definition" | "transform";
  readonly server: string;
  /** As written: a path in the folder of sources, or for a definition a CID. */
  readonly target: string;
  readonly at: SourcePosition;
  /** The entry that names the definition; absent for a boot source. */
  readonly entry?: {
    /** Without the fields that name files. */
    readonly value: JsonObject;
    /** Returns problems, whose pointers begin with the server, with their positions in the file. */
    place(problems: readonly Problem[]): Problem[];
  };
}

/** Finds problems inside an entry, whose meaning the host defines. Pointers begin with the server. */
export type CheckEntry = (server: string, entry: JsonObject) => readonly Problem[];

export interface McpsSource {
  readonly references: readonly Reference[];
  /** Launcher URIs, in the order of their servers. */
  readonly upstreams: readonly string[];
  readonly problems: readonly Problem[];
  /** Generates the configuration, and the blocks of `config_cid`s. Targets without a CID remain as written. */
  generate(findCid: FindCid): { value: JsonObject; blocks: Block[] };
}

type FindCid = (target: string) => Cid | undefined;

/** Generates an entry: `emit` receives the block of each configuration in a file of its own. */
type Generate = (findCid: FindCid, emit: (block: Block) => void) => Json;

/** Reads the list of servers, the configuration files that it names, and the lock next to it. */
export function readMcpsSource(root: JsonNode, folder: SourceFolder, checkEntry: CheckEntry = () => []): McpsSource {
  const problems: Problem[] = [];
  const locked = readUpstreamsLock(folder, problems);
  const reading: Reading = { folder, checkEntry, locked, references: [], upstreams: [], problems };
  const entries = new Map<string, Generate>();
  if (!root.members)
    problems.push(problemAt(root.at, "wrong-type", `The file ${root.at.file} must be an object of servers`));
  for (const [server, { at, node }] of root.members ?? []) {
    if (server === SCHEMA_KEY) {
      if (typeof node.value !== "string") problems.push(problemAt(node.at, "wrong-type", "It must be a string"));
      continue;
    }
    if (isClientList(server, node)) {
      const how = "move it to a file of its own and import it with `berth import FILE`";
      problems.push(problemAt(at, "client-config", `"${server}" is the configuration of an MCP client; ${how}`));
      entries.set(server, () => node.value);
      continue;
    }
    const fault = serverNameProblem(server);
    if (fault) problems.push(problemAt(at, "bad-name", fault));
    entries.set(server, readEntry(node, server, [], reading));
  }
  const { references, upstreams } = reading;
  problems.push(...findLockProblems(root.at.file, locked, new Set(upstreams)));
  return {
    references,
    upstreams,
    problems,
    generate(findCid) {
      const blocks: Block[] = [];
      const generated = [...entries].map(([server, generate]) => {
        return [server, generate(findCid, (block) => blocks.push(block))] as const;
      });
      return { value: Object.fromEntries(generated), blocks };
    },
  };
}

/** True for the list of servers in a client's configuration, which people paste here. */
function isClientList(name: string, { members }: JsonNode): boolean {
  if (!members || !/^(?:mcpServers|servers|mcp_servers|context_servers|mcp)$/.test(name)) return false;
  return Array.from(members.values()).some(({ node }) => node.members?.has("command") || node.members?.has("url"));
}

interface Reading {
  readonly folder: SourceFolder;
  readonly checkEntry: CheckEntry;
  /** Blocks of contracts, by launcher URI. */
  readonly locked: ReadonlyMap<string, Block>;
  readonly references: Reference[];
  readonly upstreams: string[];
  readonly problems: Problem[];
}

/** `chain` lists the configuration files that led to this one. */
function readEntry(node: JsonNode, server: string, chain: readonly string[], reading: Reading): Generate {
  if (node.members?.has("config_cid")) return readConfigFile(node, server, chain, reading);

  const fields = readSourceFields(node, sourceFields, `The entry of "${server}"`, reading.problems);
  const upstreamField = fields.upstream ?? fields.command;
  if (fields.definition && upstreamField) {
    const message = `"${server}" has both a definition and an upstream; a server is one or the other`;
    reading.problems.push(problemAt(upstreamField.at, "two-kinds", message));
  }
  const entries = Object.entries(fields);
  const files = entries.filter(([name]) => cidFields.some((field) => field === name));
  const value = Object.fromEntries(
    entries.flatMap((field) => (files.includes(field) ? [] : [[field[0], field[1].value]])),
  );
  const entry = { value, place: (problems: readonly Problem[]) => locateInEntry(node, problems) };
  reading.problems.push(...entry.place(reading.checkEntry(server, value)));
  for (const [name, { value: target, at }] of files) {
    const kind = name === "definition" ? "definition" : "transform";
    reading.references.push({ kind, server, target: target as string, at, ...(kind === "definition" && { entry }) });
  }
  const upstream = fields.definition ? undefined : writtenUpstream(value);
  if (upstream !== undefined) reading.upstreams.push(upstream);
  const contract = upstream === undefined ? undefined : reading.locked.get(upstream);
  return (findCid, emit) => {
    if (contract) emit(contract);
    // Includes invalid parts, so that the host refuses the server instead of serving it without them.
    const generated = Array.from(node.members ?? [], ([name, member]): [string, Json] => {
      const { value } = member.node;
      return [name, (files.some(([file]) => file === name) && findCid(value as string)) || value];
    });
    if (!node.members) return node.value;
    return { ...Object.fromEntries(generated), ...(contract && { contract_cid: contract.cid }) };
  };
}

/** The entry may be in a file of its own, where pointers begin with it. */
function locateInEntry(node: JsonNode, problems: readonly Problem[]): Problem[] {
  return problems.map(({ code, message, severity, tool, pointer = "" }) => {
    const inner = pointer.replace(/^\/[^/]*/, "");
    return Object.assign(
      problemAt(nodeAt(node, inner).at, code, message, severity),
      tool === undefined ? {} : { tool },
    );
  });
}

/** `{ "config_cid": "file.json" }`: the entry is in that file, which may refer to another. */
function readConfigFile(node: JsonNode, server: string, chain: readonly string[], reading: Reading): Generate {
  const { folder, problems } = reading;
  const { config_cid: field } = readSourceFields(node, { config_cid: "text" }, `An entry with "config_cid"`, problems);
  const unread: Generate = () => node.value;
  if (!field) return unread;

  const file = folder.readText(field.value as string);
  if (isFault(file)) {
    problems.push(problemAt(field.at, file.code, file.message));
    return unread;
  }
  if (chain.includes(file.path)) {
    const cycle = [...chain.slice(chain.indexOf(file.path)), file.path].join(" → ");
    problems.push(problemAt(field.at, "cycle", `The configuration refers back to itself: ${cycle}`));
    return unread;
  }
  const parsed = parseJsonSource(file.path, file.text);
  problems.push(...parsed.problems);
  if (!parsed.root) return unread;
  const inner = readEntry(parsed.root, server, [...chain, file.path], reading);
  return (findCid, emit) => {
    const block = jsonBlock(inner(findCid, emit));
    emit(block);
    return { config_cid: block.cid };
  };
}
