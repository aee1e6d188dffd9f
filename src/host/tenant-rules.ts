import type { Executor } from "../executor/executor.ts";
import type { Problem } from "../problem.ts";
import { DEFAULT_TENANT } from "../tenant-name.ts";
import { variablesOf, type Launch } from "../upstream/launch.ts";
import { parseLauncher } from "../upstream/launcher.ts";
import type { DirectoryEntry } from "./directory.ts";

/**
 * What servers of tenants may have carried out on this machine. The tenant `default` is the operator's own, and trusted;
 * every other one is a stranger. Errors: a server with any is not served.
 */

/** Code of strangers runs in the sandbox or not at all. */
export function codeProblems(
  tenant: string,
  { isolation, reason = "it is turned off" }: Pick<Executor, "isolation" | "reason">,
): Problem[] {
  if (tenant === DEFAULT_TENANT || isolation === "sandboxed") return [];
  const message =
    `Code of the tenant "${tenant}" runs in the sandbox or not at all, and this Berth has none: ${reason}. ` +
    `Without it only servers of the tenant "${DEFAULT_TENANT}" are served`;
  return [{ code: "needs-sandbox", message, severity: "error" }];
}

/** Programs of others run outside of any sandbox, and the environment is the operator's. */
export function upstreamProblems(
  { tenant, server, secrets }: { tenant: string; server: string; secrets: readonly string[] },
  launch: Launch,
  mayStartPrograms: ((tenant: string) => boolean) | undefined,
): Problem[] {
  if (tenant === DEFAULT_TENANT) return [];
  const problems: Problem[] = [];
  const pointer = `/${server.replaceAll("~", "~0").replaceAll("/", "~1")}/upstream`;
  const complain = (code: string, message: string): void =>
    void problems.push({ code, message, severity: "error", pointer });
  if (!("url" in launch) && !mayStartPrograms?.(tenant)) {
    const message =
      `Servers of the tenant "${tenant}" may not start programs of others, which run outside of the sandbox; ` +
      "the operator of this Berth can allow it with BERTH_TENANT_UPSTREAMS";
    complain("program-refused", message);
  }
  for (const name of undeclaredIn(launch, secrets)) {
    complain("undeclared-secret", `\${${name}} is no secret of this server; add "${name}" to "secrets" of its entry`);
  }
  return problems;
}

/**
 * What an entry takes of the machine that Berth runs on: a program that is started, or variables of the environment, as
 * a text that is another one for another program. Undefined for a server that takes nothing of it.
 */
export function programOf(
  tenant: string,
  { entry, enabled }: Pick<DirectoryEntry, "entry" | "enabled">,
): string | undefined {
  if (!enabled || entry.upstream === undefined) return undefined;
  const { launch } = parseLauncher(entry.upstream);
  if (!launch) return undefined;
  const environment = tenant === DEFAULT_TENANT ? undeclaredIn(launch, entry.secrets) : [];
  const takesNothing = "url" in launch && environment.length === 0;
  return takesNothing ? undefined : JSON.stringify([entry.upstream, environment]);
}

/** Names that stand for no secret of the server. */
function undeclaredIn(launch: Launch, secrets: readonly string[]): string[] {
  const names = templatesOf(launch).flatMap(variablesOf);
  return [...new Set(names)].filter((name) => !secrets.includes(name));
}

function templatesOf(launch: Launch): string[] {
  const templates =
    "url" in launch
      ? [...Object.values(launch.headers), ...launch.query.map(({ value }) => value)]
      : Object.values(launch.env);
  return templates.map(({ text }) => text);
}
