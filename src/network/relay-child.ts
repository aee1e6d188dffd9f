import { createInterface } from "node:readline";
import { Door } from "./door.ts";
import type { AskedFor, FromRelay, SocketLimits, SocketUse, ToRelay } from "./relay-wire.ts";
import { TenantSockets } from "./tenant-sockets.ts";

/**
 * The program that carries the connections of guests, outside of the process that serves. It obeys what comes on its
 * input, tells of its doors and what tenants use on its output, and ends with its input.
 */
const USED_MS = 1_000;

const doors = new Map<number, Door>();
const tenants = new Map<string, TenantSockets>();
const told = new Map<string, string>();
let limits: SocketLimits;
let ownPort: number | undefined;
let tells = false;

createInterface({ input: process.stdin })
  .on("line", (line) => void obey(JSON.parse(line) as ToRelay))
  .on("close", () => process.exit(0));
// A connection's own errors are handled where it is; anything else is told in the log, by the process that reads it.
process.on("uncaughtException", (error) => process.stderr.write(`${error.stack ?? error.message}\n`));
setInterval(tellUse, USED_MS).unref();

async function obey(command: ToRelay): Promise<void> {
  switch (command.op) {
    case "begin":
      ({ limits, ownPort, tells } = command);
      return;
    case "open": {
      const { door: number, path, grant } = command;
      const tenant = tenants.get(grant.tenant) ?? new TenantSockets(limits);
      tenants.set(grant.tenant, tenant);
      const onAsked = tells ? (asked: AskedFor): void => tell({ op: "asked", door: number, ...asked }) : undefined;
      const door = new Door({ path, grant, ownPort, tenant, onAsked });
      doors.set(number, door);
      try {
        await door.listen();
        tell({ op: "opened", door: number });
      } catch (error) {
        tell({ op: "opened", door: number, problem: (error as Error).message });
      }
      return;
    }
    case "close":
      doors.get(command.door)?.close();
      doors.delete(command.door);
      return;
    case "forget":
      tenants.delete(command.tenant);
      told.delete(command.tenant);
      tell({ op: "forgotten", tenant: command.tenant });
  }
}

function tellUse(): void {
  const changed: Record<string, SocketUse> = {};
  for (const [name, tenant] of tenants) {
    const use = tenant.use();
    const text = JSON.stringify(use);
    if (told.get(name) !== text) changed[name] = use;
    told.set(name, text);
  }
  if (Object.keys(changed).length > 0) tell({ op: "used", tenants: changed });
}

function tell(message: FromRelay): void {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}
