import { createInterface } from "node:readline";
import { EgressSocket } from "./egress-socket.ts";
import type { EgressRequest, FromRelay, SocketLimits, SocketUse, ToRelay } from "./relay-wire.ts";
import { TenantSockets } from "./tenant-sockets.ts";

/**
 * The entry point of the relay process, which carries the connections of guests outside the serving process. It
 * executes commands from its input, reports on its sockets and on the usage of tenants on its output, and exits when
 * its input ends.
 */
const REPORT_MS = 1_000;

const sockets = new Map<number, EgressSocket>();
const tenants = new Map<string, TenantSockets>();
const reported = new Map<string, string>();
let limits: SocketLimits;
let ownPort: number | undefined;
let tells = false;

createInterface({ input: process.stdin })
  .on("line", (line) => void execute(JSON.parse(line) as ToRelay))
  .on("close", () => process.exit(0));
// Errors of a connection are handled with the connection; all others go to stderr, which the serving process logs.
process.on("uncaughtException", (error) => process.stderr.write(`${error.stack ?? error.message}\n`));
setInterval(reportUse, REPORT_MS).unref();

async function execute(command: ToRelay): Promise<void> {
  switch (command.op) {
    case "begin":
      ({ limits, ownPort, tells } = command);
      return;
    case "open": {
      const { door: number, path, grant } = command;
      const tenant = tenants.get(grant.tenant) ?? new TenantSockets(limits);
      tenants.set(grant.tenant, tenant);
      const onRequest = tells ? (sent: EgressRequest): void => send({ op: "asked", door: number, ...sent }) : undefined;
      const socket = new EgressSocket({ path, grant, ownPort, tenant, onRequest });
      sockets.set(number, socket);
      try {
        await socket.listen();
        send({ op: "opened", door: number });
      } catch (error) {
        send({ op: "opened", door: number, problem: (error as Error).message });
      }
      return;
    }
    case "close":
      sockets.get(command.door)?.close();
      sockets.delete(command.door);
      return;
    case "forget":
      tenants.delete(command.tenant);
      reported.delete(command.tenant);
      send({ op: "forgotten", tenant: command.tenant });
  }
}

function reportUse(): void {
  const changed: Record<string, SocketUse> = {};
  for (const [name, tenant] of tenants) {
    const use = tenant.use();
    const text = JSON.stringify(use);
    if (reported.get(name) !== text) changed[name] = use;
    reported.set(name, text);
  }
  if (Object.keys(changed).length > 0) send({ op: "used", tenants: changed });
}

function send(message: FromRelay): void {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}
