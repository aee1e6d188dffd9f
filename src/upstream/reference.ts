import type { JsonObject } from "../lib/json.ts";
import { invalidLauncher } from "./command.ts";
import type { UpstreamConnection } from "./connection.ts";
import type { Launch } from "./launch.ts";
import { parseLauncher } from "./launcher.ts";
import type { Operation } from "./operation.ts";

/** What a person names a server by, and what is to be done there: a launcher URI, or `@profile/tool?…`. */
export interface Reference {
  readonly launch: Launch;
  readonly operation: Operation;
  /** What the tool finds as the options of its call (P6). */
  readonly options?: JsonObject;
  /** What is done first on an open connection, such as to compare the contract; throws to refuse it. */
  readonly check?: (upstream: UpstreamConnection) => Promise<void>;
}

/** Reads `@…`; throws a `BerthError` that says what is wrong with it. */
export type ProfileResolver = (reference: string) => Promise<Reference>;

/** Throws `launcher_invalid` with every problem of a URI, or what the resolver throws. */
export async function resolveReference(text: string, resolveProfile: ProfileResolver): Promise<Reference> {
  if (text.startsWith("@")) return resolveProfile(text);
  const parsed = parseLauncher(text);
  if (parsed.problems) throw invalidLauncher(parsed.problems);
  return { launch: parsed.launch, operation: parsed.operation };
}
