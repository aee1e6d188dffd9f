import type { ServerEntry } from "../../entry/entry.ts";
import type { Executor } from "../../executor/executor.ts";
import type { Problem } from "../../lib/problem.ts";
import { DEFAULT_TENANT } from "../../lib/tenant-name.ts";
import { launchVariables, type Launch } from "../../upstream/launch/launch.ts";
import { parseLauncher } from "../../upstream/launch/launcher-uri.ts";
import type { DirectoryEntry } from "./directory.ts";

/**
 * Rules for what a tenant's servers may run on this machine. The tenant `default` is the operator's own and trusted;
 * every other tenant is a stranger. Each problem is an error: a server with any is not served.
 */

/** A stranger's code runs in the sandbox or not at all. */
export function codeProblems(
  tenant: string,
  { isolation, reason = "it is turned off" }: Pick<Executor, "isolation" | "reason">,
): Problem[] {
  if (tenant === DEFAULT_TENANT || isolation === "sandboxed") return [];
  const message =
    `Code of the tenant "${tenant}" runs in the sandbox or not at all, and this Berth has none: ${reason}. ` +
    `Without a sandbox only servers of the tenant "${DEFAULT_TENANT}" are served`;
  return [{ code: "needs-sandbox", message, severity: "error" }];
}

/** Upstream programs run outside any sandbox, and the environment is the operator's. */
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
      `Servers of the tenant "${tenant}" may not start upstream programs, which run outside the sandbox; ` +
      "the operator of this Berth can allow it with BERTH_TENANT_UPSTREAMS";
    complain("program-refused", message);
  }
  for (const name of undeclaredIn(launch, secrets)) {
    complain(
      "undeclared-secret",
      `\${${name}} is not a secret of this server; add "${name}" to "secrets" in its entry`,
    );
  }
  return problems;
}

/**
 * A text that differs by what an entry takes of the machine: a started program, or environment variables. Undefined
 * when it takes neither.
 */
export function programOf(
  tenant: string,
  { entry, enabled }: Pick<DirectoryEntry, "entry" | "enabled">,
): string | undefined {
  const { startsProgram, environment } = enabled ? takenBy(tenant, entry) : NOTHING_TAKEN;
  return startsProgram || environment.length > 0 ? JSON.stringify([entry.upstream, environment]) : undefined;
}

/**
 * The problems of an earlier release that would take what its server no longer takes: a started program, environment
 * variables, or secrets in its launcher URI. `given` is the entry `was` with the grants that the release has now.
 */
export function withdrawnFrom(
  { tenant, server, was, given }: { tenant: string; server: string; was: ServerEntry; given: ServerEntry },
  now: DirectoryEntry,
): Problem[] {
  // What was a secret then is never read from the environment instead.
  const launch = launchIn(was);
  const named = launch ? launchVariables(launch) : [];
  const [secretThen, secretNow] = [new Set(was.secrets), new Set(given.secrets)];
  const secrets = named.filter((name) => secretThen.has(name) && !secretNow.has(name));
  const would = takenBy(tenant, { ...given, secrets: was.secrets });
  const may = now.enabled && !now.refused ? takenBy(tenant, now.entry) : NOTHING_TAKEN;
  const mayTake = new Set(may.environment);
  const environment = would.environment.filter((name) => !mayTake.has(name));
  const problems: Problem[] = [];
  const complain = (code: string, what: string): void => {
    const message = `That release ${what}, which the current entry of "${server}" no longer does`;
    problems.push({ code, message, severity: "error" });
  };
  if (would.startsProgram && !may.startsProgram) complain("program-withdrawn", "starts a program");
  for (const name of environment) complain("environment-withdrawn", `takes \${${name}} from the environment`);
  for (const name of secrets) complain("secret-withdrawn", `takes the secret "${name}" in its launcher URI`);
  return problems;
}

interface TakenOfMachine {
  readonly startsProgram: boolean;
  /** Names of variables. */
  readonly environment: readonly string[];
}

const NOTHING_TAKEN: TakenOfMachine = { startsProgram: false, environment: [] };

function takenBy(tenant: string, entry: Pick<ServerEntry, "upstream" | "secrets">): TakenOfMachine {
  const launch = launchIn(entry);
  if (!launch) return NOTHING_TAKEN;
  const environment = tenant === DEFAULT_TENANT ? undeclaredIn(launch, entry.secrets) : [];
  return { startsProgram: !("url" in launch), environment };
}

function launchIn({ upstream }: Pick<ServerEntry, "upstream">): Launch | undefined {
  return upstream === undefined ? undefined : parseLauncher(upstream).launch;
}

/** Names that are not secrets of the server. */
function undeclaredIn(launch: Launch, secrets: readonly string[]): string[] {
  const declared = new Set(secrets);
  return launchVariables(launch).filter((name) => !declared.has(name));
}
