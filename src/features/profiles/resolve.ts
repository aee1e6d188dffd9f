import { BerthError } from "../../lib/errors.ts";
import { printable } from "../../lib/printable.ts";
import { toContract, surveyServer } from "../../upstream/calls/survey.ts";
import { invalidLauncher } from "../../upstream/launch/command.ts";
import { readOperation } from "../../upstream/launch/operation.ts";
import { decodePiece, splitQuery, UriProblems } from "../../upstream/launch/uri-text.ts";
import { checkProfile } from "./check.ts";
import { explainDrift } from "./explain.ts";
import { profileLaunch } from "./launch.ts";
import { profileFolders, readProfile } from "./locate.ts";
import type { Profile } from "./profile.ts";
import type { ProfileResolver, ServerReference } from "./reference.ts";

export interface ProfileSurroundings {
  readonly env: NodeJS.ProcessEnv;
  /** The project's folder. */
  readonly folder: string;
  /** Uses the profile unchanged, however its server has changed (J6). */
  readonly ignoreSchema?: boolean;
  readonly warn: (text: string) => void;
}

/** Resolves `@profile/tool?query` (J4). */
export function profileResolver({ env, folder, ignoreSchema, warn }: ProfileSurroundings): ProfileResolver {
  return async (reference) => {
    const { name, tool, query } = parseReference(reference);
    const profile = await readProfile(name, profileFolders(env, folder));
    const { operation, options } = operationOf(profile, reference, tool, query);
    for (const { file, message } of profile.problems) warn(printable(`Warning: @${name}: ${file}: ${message}`));
    const validation = ignoreSchema ? "ignore" : (profile.meta.schema_validation ?? "warn");
    return {
      launch: profileLaunch(profile, env),
      operation,
      ...(options && { options }),
      async check(upstream) {
        if (validation === "ignore") return;
        const check = checkProfile(profile, await toContract(await surveyServer(upstream)));
        if (check.status !== "changed") return;
        const explained = explainDrift(name, reference, check);
        if (validation === "warn") return warn(printable(explained));
        const { changes } = check;
        throw new BerthError("contract_changed", `@${name}\n${explained}`, { data: { changes } });
      },
    };
  };
}

interface ParsedReference {
  readonly name: string;
  readonly tool: string | undefined;
  /** The offset of the query in the reference. */
  readonly query: number;
}

/** `@name` or `@name/tool`, with or without a query. Throws `launcher_invalid`. */
export function parseReference(reference: string): ParsedReference {
  const problems = new UriProblems(reference);
  const question = reference.indexOf("?");
  const query = question === -1 ? reference.length : question;
  const path = reference.slice(1, query);
  const slash = path.indexOf("/");
  const name = decodePiece({ text: slash === -1 ? path : path.slice(0, slash), offset: 1 }, problems);
  const tool = slash === -1 ? undefined : decodePiece({ text: path.slice(slash + 1), offset: slash + 2 }, problems);
  if (name === "") problems.add("missing-name", 1, "Write a reference to a profile as @name or @name/tool.");
  if (tool === "") problems.add("missing-name", slash + 2, "The name of a tool follows the slash.");
  if (problems.list.length > 0) throw invalidLauncher(problems.list);
  return { name: name!, tool, query };
}

function operationOf(
  profile: Profile,
  reference: string,
  tool: string | undefined,
  query: number,
): Pick<ServerReference, "operation" | "options"> {
  const problems = new UriProblems(reference);
  const pairs = splitQuery({ text: reference.slice(query + 1), offset: query + 1 }, problems);
  const operation = readOperation(pairs, problems);
  if (operation?.target && tool !== undefined) {
    problems.add("two-targets", query, `The reference already names the tool "${tool}".`);
  }
  if (problems.list.length > 0) throw invalidLauncher(problems.list);
  const { target, arguments: given } = operation!;
  const named = tool ?? (target?.kind === "tool" ? target.name : undefined);
  if (named === undefined) return { operation: operation! };

  const known = profile.tools.get(named);
  const defaults = Object.entries(known?.arguments ?? {}).filter(
    ([name]) => !given.texts.some((text) => text.name === name),
  );
  return {
    operation: {
      target: { kind: "tool", name: known?.tool ?? named },
      arguments: { texts: given.texts, json: { ...Object.fromEntries(defaults), ...given.json } },
    },
    ...(known?.options && { options: known.options }),
  };
}
