import { tmpdir } from "node:os";
import { packageRoot, type Config } from "../config.ts";
import { openFolders, type ProtectedPaths } from "../folders/folders.ts";
import type { Journal } from "../host/journal/journal.ts";
import { BerthError } from "../lib/errors.ts";
import type { Log } from "../lib/log.ts";
import { parsePrivateHosts, type PrivateHost } from "../network/private-hosts.ts";
import { SocketRelay, type SocketRelayOptions } from "../network/socket-relay.ts";

export function openOwnFolders(config: Config): ReturnType<typeof openFolders> {
  return openFolders(config.folders, ownPlaces(config));
}

/** The places that no folder of servers may hold. */
function ownPlaces({
  dataDir,
  databaseFile,
  imageDir,
  sealKeys,
  secretKeys,
  secretsDir,
  registry,
}: Config): ProtectedPaths {
  const keyFiles = [databaseFile, sealKeys.file, secretKeys.file, secretsDir, registry.tokenFile].filter(
    (file) => file !== undefined,
  );
  return { dataDir, temporaryDir: tmpdir(), keyFiles, programs: [packageRoot, imageDir, process.execPath] };
}

type RelayParts = Pick<SocketRelayOptions, "start" | "makeFolder" | "ownPort"> & {
  readonly journal: Journal;
  readonly log: Log;
};

/** Throws `config_invalid`. */
export function openNetwork(config: Config, { journal, ...parts }: RelayParts) {
  const privateHostsOf = privateHosts(config);
  const relay = new SocketRelay({ ...parts, limits: config.limits, events: journal });
  return {
    relay,
    network: { privateHostsOf, ownPort: parts.ownPort, retire: relay.retire },
    close: () => relay.close(),
  };
}

/** Throws `config_invalid`. */
function privateHosts({ privateHosts: text = "" }: Config): (tenant: string) => readonly PrivateHost[] {
  const hosts = parsePrivateHosts(text);
  if (typeof hosts === "string") throw new BerthError("config_invalid", `BERTH_PRIVATE_HOSTS: ${hosts}`);
  return (tenant) => hosts.filter((host) => host.tenant === undefined || host.tenant === tenant);
}
