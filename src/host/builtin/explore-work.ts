import { join } from "node:path";
import { BerthError } from "../../lib/errors.ts";
import { indentedJson, type Json, type JsonObject } from "../../lib/json.ts";
import { nextTurn } from "../../lib/event-loop.ts";
import { contractHashInTurns } from "../../upstream/contract-hash.ts";
import { anchorUri } from "../../upstream/profiles/anchor.ts";
import { draftProfile, pinProfile } from "../../upstream/profiles/design.ts";
import { exampleArguments, firstExample, type Example } from "../../upstream/profiles/example.ts";
import { readGivenProfile } from "../../upstream/profiles/given.ts";
import { listProfiles, readProfile, type ProfileFolder } from "../../upstream/profiles/locate.ts";
import type { ProfileTool } from "../../upstream/profiles/profile.ts";
import { checkFiles, saveProfile, type ProfileFiles } from "../../upstream/profiles/save.ts";
import { textOf } from "../../upstream/records.ts";
import type { CallOptions, CallResult, InputRequired } from "../catalog/catalog.ts";
import { text } from "../../contract/content-block.ts";
import { callUpstream, type UpstreamRequest } from "../calls/upstream-call.ts";
import { LongToolResult } from "../calls/long-reader.ts";
import { resultOf } from "../calls/upstream-results.ts";
import { cidOf } from "../catalog/structure-cid.ts";
import type { HostedUpstream } from "../serving/hosted.ts";
import type { Work } from "./built-in-tool.ts";
import type { Explored, ExploredServers } from "./explored.ts";

/** The work of the tools of `explore`; their schemas have already checked the arguments. */

/** Successful inputs kept for each tool, to be shown in a draft. */
const INPUTS_KEPT_MAX = 3;

export interface Workplace {
  readonly servers: ExploredServers;
  readonly folders: readonly ProfileFolder[];
  /** The folder that relative script paths start from. */
  readonly folder: string;
}

export function explore({ servers }: Workplace): Work {
  return async ({ uri }, options) => {
    const { hosted } = await servers.open(uri as string, options);
    const { contract, problems } = hosted.observed!;
    const { protocolVersion, server } = hosted.upstream.health;
    const { description: instructions, ...offers } = contract;
    const hash = await contractHashInTurns(contract);
    await nextTurn();
    return json({
      server: hosted.upstream.launch.name,
      ...(server && { serverInfo: server }),
      ...(protocolVersion !== undefined && { protocolVersion }),
      ...(instructions !== undefined && { instructions }),
      ...offers,
      problems,
      schema_hash: hash,
      contract_cid: cidOf(contract),
    } as unknown as JsonObject);
  };
}

export function call({ servers }: Workplace): Work {
  return async ({ uri, tool, arguments: given }, options) => {
    const explored = await servers.open(uri as string, options);
    const { upstream, suspended } = explored.hosted;
    const name = tool as string;
    refuseUnknown(explored, [name]);
    const args = given as JsonObject;
    const send: UpstreamRequest<CallResult | InputRequired>["send"] = async (connection, sent) => {
      const given = await connection.callTool(name, args, sent);
      return given instanceof LongToolResult ? given.ended.result : resultOf(given);
    };
    const result = await callUpstream(upstream, suspended, { name, send }, options);
    if (!("inputRequests" in result) && !result.isError) remember(explored, name, args);
    return result;
  };
}

export function draft({ servers, folder }: Workplace): Work {
  return async ({ uri, tools: wanted }, options) => {
    const explored = await servers.open(uri as string, options);
    const names = (wanted as string[] | undefined) ?? [];
    refuseUnknown(explored, names);
    const { contract } = explored.hosted.observed!;
    const { tools } = await draftProfile({}, contract, new Date());
    const chosen = Object.entries(tools).filter(([, { tool }]) => names.length === 0 || names.includes(tool!));
    return json({
      uri: anchorUri(uri as string, folder),
      description: contract.description?.split("\n")[0]!.replace(/^#+\s*/, "") ?? "",
      schema_validation: "warn",
      tools: Object.fromEntries(chosen.map(([name, tool]) => [name, withInputs(tool, explored)])),
    });
  };
}

export function save({ servers, folders, folder }: Workplace): Work {
  return async ({ name, profile, replace, test }, options) => {
    const given = readGivenProfile(profile as Json);
    checkFiles(given);
    const uri = given.meta.uri ?? "";
    if (uri.startsWith("@")) throw new BerthError("profile_invalid", "its uri is another profile's name");
    given.meta.uri = anchorUri(uri, folder);
    const explored = await servers.open(given.meta.uri, options);
    const files = await pinProfile(given, explored.hosted.observed!.contract, new Date());
    const tested = test === false ? [] : await tryAll(explored, files, options);
    const own = join(folders.find(({ origin }) => origin === "user")!.folder, name as string);
    await saveProfile(own, files, { replace: replace === true });
    const { schema_hash: hash, contract_cid: cid } = files.meta;
    return json({ profile: `@${name as string}`, folder: own, schema_hash: hash!, contract_cid: cid!, tested });
  };
}

export function list({ folders }: Workplace): Work {
  return async () => {
    const profiles = await Promise.all((await listProfiles(folders)).map(({ name }) => describe(name, folders)));
    return json({ profiles });
  };
}

async function describe(name: string, folders: readonly ProfileFolder[]): Promise<JsonObject> {
  try {
    const { origin, meta, tools } = await readProfile(name, folders);
    const about = {
      name: `@${name}`,
      origin,
      ...(meta.description !== undefined && { description: meta.description }),
    };
    return { ...about, tools: [...tools.keys()] };
  } catch (error) {
    if (error instanceof BerthError) return { name: `@${name}`, problem: error.message };
    throw error;
  }
}

/** Calls each tool with its first example. Returns the calls made; throws with every failure. */
async function tryAll({ hosted }: Explored, { tools }: ProfileFiles, { signal }: CallOptions): Promise<string[]> {
  const examples = Object.entries(tools).flatMap(([name, tool]) => {
    const example = firstExample(tool);
    return example ? [{ name, tool, example }] : [];
  });
  const failures: string[] = [];
  const aborting = new AbortController();
  signal?.addEventListener("abort", () => aborting.abort());
  for (const { name, tool, example } of examples) {
    const failed = await failureOf(hosted, tool.tool ?? name, tool, example, aborting.signal);
    if (failed !== undefined) failures.push(`${name}?${example.query}: ${failed}`);
  }
  if (failures.length === 0) return examples.map(({ name, example }) => `${name}?${example.query}`);
  throw new BerthError("profile_invalid", `nothing was saved, examples failed: ${failures.join("; ")}`);
}

/** Why the call fails; undefined when it does not. */
async function failureOf(
  { upstream, observed }: HostedUpstream,
  name: string,
  tool: ProfileTool,
  example: Example,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { inputSchema = {} } = observed!.contract.tools.find((each) => each.name === name) ?? {};
  const args = exampleArguments(example, tool, inputSchema);
  if (typeof args === "string") return args;
  try {
    const result = await upstream.request({ name }, (connection) => connection.callTool(name, args, { signal }));
    return result.isError ? textOf(result) || "The tool failed and did not say why." : undefined;
  } catch (error) {
    if (error instanceof BerthError && error.code === "upstream_refused") return error.message;
    throw error;
  }
}

function refuseUnknown({ hosted }: Explored, names: readonly string[]): void {
  const known = hosted.observed!.contract.tools.map(({ name }) => name);
  const unknown = names.filter((name) => !known.includes(name));
  if (unknown.length === 0) return;
  const said = unknown.map((name) => `"${name}"`).join(", ");
  throw new BerthError("invalid_params", `the server has no tool ${said}; it has ${known.join(", ") || "none"}`);
}

function remember({ inputs }: Explored, tool: string, args: JsonObject): void {
  const others = (inputs.get(tool) ?? []).filter((each) => JSON.stringify(each) !== JSON.stringify(args));
  inputs.set(tool, [args, ...others].slice(0, INPUTS_KEPT_MAX));
}

function withInputs(tool: ProfileTool, { inputs }: Explored): ProfileTool {
  const worked = inputs.get(tool.tool!);
  return worked ? { ...tool, examples: worked.map((input) => ({ input: input as JsonObject })) } : tool;
}

function json(value: JsonObject): CallResult {
  return { content: [text(indentedJson(value))], structuredContent: value };
}
