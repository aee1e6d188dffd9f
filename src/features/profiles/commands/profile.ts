import { join } from "node:path";
import { createInterface } from "node:readline/promises";
import { text as readText } from "node:stream/consumers";
import { BerthError } from "../../../lib/errors.ts";
import type { Json, JsonObject } from "../../../lib/json.ts";
import { printable, printableJson } from "../../../lib/printable.ts";
import { toContract } from "../../../upstream/calls/survey.ts";
import { surveyServer } from "../../../upstream/calls/survey.ts";
import { checkProfile, type ProfileCheck } from "../check.ts";
import { draftProfile, pinProfile } from "../design.ts";
import { readGivenProfile } from "../design.ts";
import { type Example, exampleArguments, firstExample } from "../example.ts";
import { listChanges } from "../explain.ts";
import { anchorUri } from "../launch.ts";
import { listProfiles, profileFolders, readProfile } from "../locate.ts";
import { type Profile, profileNameProblem, type ProfileTool } from "../profile.ts";
import { parseReference } from "../resolve.ts";
import { checkFiles, type ProfileFiles, saveProfile } from "../save.ts";
import { updateProfile } from "../update.ts";
import { callTool } from "./call-tool.ts";
import { CommandFailure, exitCodes, failureFields, printFailure, usageFailure } from "./failure.ts";
import { oneOf } from "./options.ts";
import { ReaderGone, recordFormats, RecordOutput } from "./output.ts";
import { findTool } from "./perform.ts";
import { reach, type Reached, type ReachOptions } from "./reach.ts";

interface ProfileOptions extends ReachOptions {
  readonly format?: string;
}

const folders = () => profileFolders(process.env, process.cwd());

/** `berth profile list` (J7). */
export function list(options: { format?: string; type?: string }): Promise<number> {
  return guarded(async () => {
    oneOf("--type", options.type ?? "mcp", ["mcp"]);
    const output = new RecordOutput(oneOf("--format", options.format ?? "text", recordFormats));
    for (const { name, origin, folder } of await listProfiles(folders())) {
      const profile = await readProfile(name, folders()).catch((error: BerthError) => error);
      const said = profile instanceof BerthError ? profile.message : profile.meta.description;
      const record: JsonObject = { name, origin, folder, ...(said !== undefined && { description: said }) };
      await output.write(
        options.format === "text" || !options.format
          ? { text: printable([`@${name}`, `(${origin})`, said].filter(Boolean).join("  ")) }
          : record,
      );
    }
    await output.end();
    return exitCodes.ok;
  });
}

/** `berth profile info @name`: everything in its files (J7). */
export function info(reference: string): Promise<number> {
  return guarded(async () => {
    const { name, origin, folder, meta, tools } = await find(reference);
    const whole = { name, origin, folder, ...meta, tools: Object.fromEntries(tools) };
    await new RecordOutput("text").text(`${printableJson(JSON.stringify(whole, undefined, 2))}\n`);
    return exitCodes.ok;
  });
}

export interface CreateOptions extends ReachOptions {
  /** A launcher URI from which to create a full profile. */
  readonly from?: string;
  readonly project?: boolean;
  readonly replace?: boolean;
  readonly offline?: boolean;
}

/** `berth profile create NAME < profile.json`, or `--from URI`; includes the server's contract (J7, J8). */
export async function create(name: string, options: CreateOptions): Promise<number> {
  return guarded(async () => {
    const wrong = profileNameProblem(name, "profile");
    if (wrong) throw usageFailure(wrong);
    const given = options.from === undefined ? await givenProfile() : { meta: { uri: options.from }, tools: {} };
    checkFiles(given);
    // A project's profiles keep relative paths; a user's own profiles are used from any folder.
    const { uri } = given.meta;
    if (uri !== undefined && !options.project) given.meta.uri = anchorUri(uri, process.cwd());
    const folder = folderOf(name, options.project ? "project" : "user");
    const save = async (files: ProfileFiles): Promise<number> => {
      await saveProfile(folder, files, { replace: options.replace ?? false });
      process.stderr.write(`Profile saved to ${folder}\n`);
      return exitCodes.ok;
    };
    if (options.offline) return save(given);
    const profile: Profile = {
      name,
      folder,
      origin: "user",
      meta: given.meta,
      tools: new Map(Object.entries(given.tools)),
      problems: [],
    };
    return reach(name, { ...options, profile }, async ({ upstream, signal }) => {
      const contract = await toContract(await surveyServer(upstream, { signal }));
      if (options.from !== undefined) return save(await draftProfile(given.meta, contract, new Date()));
      return save(await pinProfile(given, contract, new Date()));
    });
  });
}

/** `berth profile validate @name`: exit code 1 if a call that it describes may fail. */
export function validate(reference: string, options: ProfileOptions): Promise<number> {
  return compare(reference, options, ({ status }) => (status === "changed" ? 1 : exitCodes.ok));
}

/** `berth profile diff @name`: every difference, whatever its effect. */
export function diff(reference: string, options: ProfileOptions): Promise<number> {
  return compare(reference, options, () => exitCodes.ok);
}

function compare(reference: string, options: ProfileOptions, codeOf: (check: ProfileCheck) => number): Promise<number> {
  return guarded(async () => {
    const format = oneOf("--format", options.format ?? "text", ["text", "json"]);
    const profile = await find(reference);
    return reach(reference, { ...options, profile }, async ({ upstream, signal }) => {
      const check = checkProfile(profile, await toContract(await surveyServer(upstream, { signal })));
      const shown = format === "json" ? printableJson(JSON.stringify(check, undefined, 2)) : describe(profile, check);
      await new RecordOutput("text").text(printable(`${shown}\n`));
      return codeOf(check);
    });
  });
}

function describe({ name }: Profile, { status, changes, expectedHash, currentHash }: ProfileCheck): string {
  return [
    `@${name}: ${status}`,
    ...(status === "unknown"
      ? ["The profile has no schema hash; `berth profile update` adds one."]
      : listChanges(changes)),
    ...(expectedHash === undefined ? [] : [`Profile hash: ${expectedHash}`]),
    `Current hash: ${currentHash}`,
  ].join("\n");
}

export interface UpdateOptions extends ReachOptions {
  readonly yes?: boolean;
  readonly test?: boolean;
}

/**
 * `berth profile update @name`: shows the changes, asks, runs the examples, and saves as a whole; if one fails, nothing
 * is saved (J7). A profile that comes with Berth becomes the user's own.
 */
export function update(reference: string, options: UpdateOptions): Promise<number> {
  return guarded(async () => {
    const profile = await find(reference);
    const { name, origin, meta } = profile;
    const output = new RecordOutput("text");
    await output.text(`Connecting to ${name} MCP server...\n`);
    return reach(reference, { ...options, profile }, async (reached) => {
      const { upstream, signal } = reached;
      await output.text("Fetching current tool schemas...\n\n");
      const current = await toContract(await surveyServer(upstream, { signal }));
      const check = checkProfile(profile, current);
      if (check.status === "valid" && meta.contract_cid === check.currentContract) {
        await output.text("No changes. The profile is up to date.\n");
        return exitCodes.ok;
      }
      const { files, steps } = await updateProfile(profile, current, check.changes, new Date());
      const strategy = steps.map((step, index) => `  ${index + 1}. ${printable(step)}`);
      await output.text(`${[...listChanges(check.changes), "", "Update strategy:", ...strategy, ""].join("\n")}\n`);
      if (!(await confirm("Update the profile?", options))) {
        await output.text("Nothing was saved.\n");
        return exitCodes.ok;
      }
      const failed = options.test === false ? [] : await tryExamples(reached, name, files.tools, output);
      if (failed.length > 0) {
        const message = `Nothing was saved: the example of ${failed.join(", ")} failed; --no-test saves all the same.`;
        throw new CommandFailure("tool_error", message, exitCodes.tool, { tools: failed });
      }
      const folder = origin === "bundled" ? folderOf(name, "user") : profile.folder;
      await saveProfile(folder, files, { replace: true });
      await output.text(`Updated profile saved to ${folder}\nNew schema hash: ${files.meta.schema_hash}\n`);
      await output.text("Profile updated successfully.\n");
      return exitCodes.ok;
    });
  });
}

async function find(reference: string): Promise<Profile> {
  const { name } = parseReference(reference.startsWith("@") ? reference : `@${reference}`);
  const profile = await readProfile(name, folders());
  for (const { file, message } of profile.problems)
    process.stderr.write(printable(`Warning: @${name}: ${file}: ${message}\n`));
  return profile;
}

/** The folder where a profile of the project or of the user is saved. */
function folderOf(name: string, origin: "project" | "user"): string {
  return join(folders().find((one) => one.origin === origin)!.folder, name);
}

async function givenProfile(): Promise<ProfileFiles> {
  if (process.stdin.isTTY)
    throw usageFailure("Give the profile as JSON on standard input, or a launcher URI with --from.");
  try {
    return readGivenProfile(JSON.parse(await readText(process.stdin)) as Json);
  } catch (error) {
    if (error instanceof SyntaxError) throw usageFailure(`The profile on standard input is not JSON: ${error.message}`);
    throw error;
  }
}

async function guarded(work: () => Promise<number>): Promise<number> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ReaderGone) return exitCodes.ok;
    const failure = failureFields(error);
    printFailure(failure);
    return failure.exitCode;
  }
}

/** Asks a person; an empty line means yes. Without a terminal, only `--yes` confirms. */
async function confirm(question: string, { yes }: { readonly yes?: boolean }): Promise<boolean> {
  if (yes) return true;
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    throw usageFailure(`"${question}" cannot be asked without a terminal; --yes answers it.`);
  }
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return /^(?:y(?:es)?)?$/i.test((await terminal.question(`${question} (Y/n) `)).trim());
  } finally {
    terminal.close();
  }
}

/** Calls each tool with its first example and reports the results. Returns the names of the tools that failed. */
async function tryExamples(
  reached: Reached,
  profile: string,
  tools: Readonly<Record<string, ProfileTool>>,
  output: RecordOutput,
): Promise<string[]> {
  const failed: string[] = [];
  for (const [name, tool] of Object.entries(tools)) {
    const example = firstExample(tool);
    if (!example) continue;
    const { query } = example;
    await output.text(printable(`Running: berth cat "@${profile}/${name}${query && `?${query}`}"\n`));
    const failure = await failureOf(reached, name, tool, example);
    if (failure !== undefined) failed.push(name);
    await output.text(failure === undefined ? "✓ Success\n" : `✗ ${printable(failure)}\n`);
  }
  return failed;
}

/** Why the call fails; undefined if it does not. */
async function failureOf(
  reached: Reached,
  name: string,
  tool: ProfileTool,
  example: Example,
): Promise<string | undefined> {
  const { upstream, signal } = reached;
  const { options } = tool;
  const reference = options ? { ...reached.reference, options } : reached.reference;
  try {
    const listed = await findTool(upstream, tool.tool ?? name, { signal });
    const args = exampleArguments(example, tool, listed.inputSchema);
    if (typeof args === "string") return args;
    await callTool({ ...reached, reference }, listed, args, { signal });
    return undefined;
  } catch (error) {
    // A fault of the call itself, rather than of the connection.
    const isAnswer = error instanceof BerthError && error.code === "upstream_refused";
    if (isAnswer || error instanceof CommandFailure) return error.message;
    throw error;
  }
}
