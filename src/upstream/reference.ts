import type { JsonObject } from "../lib/json.ts";
import { invalidLauncher } from "./command.ts";
import type { UpstreamConnection } from "./connection.ts";
import type { Launch } from "./launch.ts";
import { parseLauncher } from "./launcher-uri.ts";
import type { Operation } from "./operation.ts";

/** A server and an operation in a person's words: a launcher URI, or `@profile/tool?…`. */
export interface ServerReference {
  readonly launch: Launch;
  readonly operation: Operation;
  /** The options that the tool gets in the context of its call (P6). */
  readonly options?: JsonObject;
  /** Runs first on an open connection, for example to compare the contract; throws to refuse it. */
  readonly check?: (upstream: UpstreamConnection) => Promise<void>;
}

/** Reads `@…`; throws a `BerthError` that describes the fault. */
export type ProfileResolver = (reference: string) => Promise<ServerReference>;

/** Throws `launcher_invalid` with every problem of a URI, or the error of the resolver. */
export async function resolveReference(text: string, resolveProfile: ProfileResolver): Promise<ServerReference> {
  if (text.startsWith("@")) return resolveProfile(text);
  const parsed = parseLauncher(text);
  if (parsed.problems) throw invalidLauncher(parsed.problems);
  return { launch: parsed.launch, operation: parsed.operation };
}
