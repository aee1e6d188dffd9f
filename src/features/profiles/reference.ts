import { BerthError } from "../../lib/errors.ts";
import type { JsonObject } from "../../lib/json.ts";
import type { UpstreamConnection } from "../../upstream/calls/connection.ts";
import { invalidLauncher } from "../../upstream/launch/command.ts";
import type { Launch } from "../../upstream/launch/launch.ts";
import { suggestLauncher, launcherFromUrl, parseLauncher } from "../../upstream/launch/launcher-uri.ts";
import type { Operation } from "../../upstream/launch/operation.ts";

/** A server and an operation as a person names them: a launcher URI, `@profile/tool?…`, or a server's URL. */
export interface ServerReference {
  readonly launch: Launch;
  readonly operation: Operation;
  /** The options that the tool gets in the context of its call (P6). */
  readonly options?: JsonObject;
  /** Runs first on an open connection, for example to compare the contract; throws to reject it. */
  readonly check?: (upstream: UpstreamConnection) => Promise<void>;
}

/** Parses `@…`; throws a `BerthError` that describes the fault. */
export type ProfileResolver = (reference: string) => Promise<ServerReference>;

/** Throws `launcher_invalid` with every problem of a URI, or the error of the resolver. */
export async function resolveReference(text: string, resolveProfile: ProfileResolver): Promise<ServerReference> {
  if (text.startsWith("@")) {
    return resolveProfile(text).catch((error: unknown) => {
      throw orPackage(text, error);
    });
  }
  const parsed = parseLauncher(launcherFromUrl(text));
  if (parsed.problems) throw invalidLauncher(parsed.problems);
  return { launch: parsed.launch, operation: parsed.operation };
}

/** A package's name with a scope looks like a profile's. */
function orPackage(text: string, error: unknown): Error {
  const meant = text.includes("/") ? suggestLauncher(text) : undefined;
  if (!(error instanceof BerthError) || error.code !== "profile_not_found" || meant === undefined)
    return error as Error;
  return new BerthError(error.code, `${error.detail}; if you mean the npm package, write ${meant}`);
}
