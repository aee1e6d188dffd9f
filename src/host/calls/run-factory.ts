import type { Cid } from "../../lib/cid.ts";
import type { CallShape, DefinitionSource } from "../../discover/discovery.ts";
import type { Executor, GuestProgram } from "../../executor/executor.ts";
import type { JsonObject } from "../../lib/json.ts";
import type { Log } from "../../lib/log.ts";
import type { Checks } from "../checks/checks.ts";
import type { Granted } from "./granted.ts";
import { functionRun } from "./run-function.ts";
import { scriptRun, type Script } from "./run-script.ts";
import type { Run } from "./tool.ts";

/** An item that runs guest code when it is used. */
export interface Callee {
  readonly name: string;
  readonly call: CallShape;
  /** The options configured for it. */
  readonly toolOptions?: JsonObject;
  /** Leaves long results unread. */
  readonly takesUnread?: boolean;
}

interface Runnable {
  readonly tenant: string;
  readonly server: string;
  readonly language: DefinitionSource["language"];
  readonly bundle: Cid | null;
  /** The bundle's text in UTF-8. */
  readonly code: () => Promise<Uint8Array>;
  readonly granted: Granted;
}

interface RunDependencies {
  readonly executor: Executor;
  readonly checks: Pick<Checks, "textsIn">;
  readonly log: Log;
  readonly limits: { readonly callMs: number; readonly outputBytes: number };
}

/** How each function of a definition is run. */
export function runFactory(
  { tenant, server, language, bundle, code, granted }: Runnable,
  { executor, checks, limits, log }: RunDependencies,
): (callee: Callee) => Run {
  const { callMs, outputBytes } = limits;
  const { grant, port, realm } = granted;
  // Without a bundle there is nothing to run.
  const program = bundle ?? "";
  if (language === "shell") {
    return ({ name, call, toolOptions = {} }) => {
      const warn = (message: string): void => log.warn({ tenant, server, tool: name }, message);
      const text = async (): Promise<string> => new TextDecoder().decode(await code());
      const textsIn: Script["textsIn"] = (args, names) => checks.textsIn(tenant, args, names);
      return scriptRun(executor, { tenant, text, textsIn, grant }, call, { name, callMs, toolOptions, warn });
    };
  }
  const hide = grant && ((value: Parameters<typeof grant.hideIn>[0]) => grant.hideIn(value));
  const guest: GuestProgram = {
    tenant,
    bundle: program,
    code,
    port,
    realm,
    ...(hide && { hide }),
  };
  return ({ name, call, toolOptions = {}, takesUnread = false }) =>
    functionRun(executor, guest, call, { server, tool: name, toolOptions, callMs, outputBytes, takesUnread });
}
