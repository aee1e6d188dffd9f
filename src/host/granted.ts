import type { HostPort } from "../executor/executor.ts";
import type { Problem } from "../problem.ts";
import type { Grant, Grants } from "../secrets/grants.ts";
import type { ServerEntry } from "./config/entry.ts";
import type { Offered } from "./config/offer.ts";
import { complain, inside, type Place } from "./config/place.ts";

/** What a release of a server is given by its own entry, beside what every server has. */
export interface Granted {
  /** Its secrets; undefined where there are none. */
  readonly grant: Grant | undefined;
  /** What its code may ask of the host. */
  readonly port: HostPort;
  /** Code that is given something shares no process with the same code that is not. */
  readonly realm: string | undefined;
}

export async function grantTo(
  { tenant, server, entry }: { tenant: string; server: string; entry: ServerEntry },
  port: HostPort,
  grants: Grants | undefined,
): Promise<Granted> {
  const grant = grants?.of(tenant, server, entry.secrets);
  if (!grant) return { grant, port, realm: undefined };
  // A process that has seen an earlier value may keep it, so that another value is for another process.
  const realm = JSON.stringify([server, grant.names, await grant.version()]);
  return { grant, port: secretPort(port, grant), realm };
}

function secretPort(port: HostPort, grant: Grant): HostPort {
  return {
    async request(op, params) {
      if (op !== "secret") return port.request(op, params);
      const { name } = params;
      if (typeof name !== "string") throw new TypeError('"name" must be a text');
      return (await grant.read(name)) ?? null;
    },
  };
}

/** What a server waits for that nobody has set. */
export async function missingSecrets(server: string, grant: Grant | undefined): Promise<Problem[]> {
  const problems: Problem[] = [];
  for (const name of (await grant?.missing()) ?? []) {
    const message = `The secret "${name}" is not set: set it at /secrets, or with "berth secret set ${name}"`;
    complain(secretsPlace(server, problems), "secret-not-set", message, "warning");
  }
  return problems;
}

/** A script has both by the same way: a caller could say what the secret is, or read what nobody may. */
export function leaveOutNamesakes(server: string, { tools, problems }: Offered, { secrets }: ServerEntry): void {
  for (const [tool, { function: own }] of tools) {
    const name = own.call.params.find((param) => secrets.includes(param));
    if (name === undefined) continue;
    tools.delete(tool);
    const message = `The secret "${name}" and a parameter of the tool "${tool}" are the same variable; rename one of them`;
    complain({ ...secretsPlace(server, problems), tool }, "secret-is-parameter", message);
  }
}

function secretsPlace(server: string, problems: Problem[]): Place {
  return inside(inside({ pointer: "", problems }, server), "secrets");
}
