import type { Executor } from "../executor/executor.ts";
import type { Problem } from "../problem.ts";
import { DEFAULT_TENANT } from "../tenant-name.ts";
import { variablesOf, type Launch } from "../upstream/launch.ts";

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
  const undeclared = new Set(
    templatesOf(launch)
      .flatMap(variablesOf)
      .filter((name) => !secrets.includes(name)),
  );
  for (const name of undeclared) {
    complain("undeclared-secret", `\${${name}} is no secret of this server; add "${name}" to "secrets" of its entry`);
  }
  return problems;
}

function templatesOf(launch: Launch): string[] {
  const templates =
    "url" in launch
      ? [...Object.values(launch.headers), ...launch.query.map(({ value }) => value)]
      : Object.values(launch.env);
  return templates.map(({ text }) => text);
}
