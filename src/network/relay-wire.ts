import type { Limits } from "../limits/limits.ts";
import type { AllowedHost } from "./allow-list.ts";
import type { ListOptions } from "./network-rules.ts";
import type { PrivateHost } from "./private-hosts.ts";

/**
 * The protocol of the serving process and the relay: one JSON object per line. The bytes of connections never pass
 * through it.
 */
export type ToRelay =
  | {
      readonly op: "begin";
      readonly limits: SocketLimits;
      readonly ownPort?: number | undefined;
      /** Every request of a guest is reported. */
      readonly tells: boolean;
    }
  | { readonly op: "open"; readonly door: number; readonly path: string; readonly grant: SocketGrant }
  /** Ends all connections of a socket, and accepts no further ones. */
  | { readonly op: "close"; readonly door: number }
  /** The tenant was deleted: its usage is no longer reported, unless a tenant of this name opens a socket again. */
  | { readonly op: "forget"; readonly tenant: string };

export type FromRelay =
  /** All usage reported for the tenant so far is void. */
  | { readonly op: "forgotten"; readonly tenant: string }
  /** The socket accepts connections, or `problem` says why it does not. */
  | { readonly op: "opened"; readonly door: number; readonly problem?: string }
  /** A request of a guest, reported to followers. */
  | ({ readonly op: "asked"; readonly door: number } & EgressRequest)
  /** The usage of tenants since the relay started, for those whose usage has changed. */
  | { readonly op: "used"; readonly tenants: Readonly<Record<string, SocketUse>> };

/** A connection, or a look-up of a name, that a guest requested. */
export interface EgressRequest {
  /** As the guest wrote it; with the port for a connection. */
  readonly host: string;
  /** Until the connection was established. */
  readonly ms: number;
  readonly refused?: string;
}

export type SocketLimits = Pick<Limits, "socketBytesPerSecondPerTenant">;

/** The hosts that the sockets of one guest process may reach, and the owner of the process. */
export interface SocketGrant {
  readonly tenant: string;
  readonly server: string;
  readonly hosts: readonly AllowedHost[];
  /** See `ListOptions`. */
  readonly privateToo: boolean;
  readonly privateHosts: readonly PrivateHost[];
  readonly requested?: ListOptions["requested"];
  readonly byOperator?: boolean;
}

export interface SocketUse {
  readonly open: number;
  readonly opened: number;
  readonly refused: number;
  /** From guests, and to guests. */
  readonly sentBytes: number;
  readonly receivedBytes: number;
  readonly openMs: number;
}

/** A guest's first line on a connection to its egress socket. */
export type Asked =
  | { readonly connect: { readonly host: string; readonly port: number } }
  | { readonly lookup: string }
  /** Requests the list of allowed hosts. */
  | { readonly listed: true };

/** The reply, one line. While a connection is in use, the guest keeps the connection of its request open. */
export type RelayReply =
  /** The socket, in the same folder, that accepts one connection, which leads to this address. */
  | { readonly socket: string; readonly address: string }
  | { readonly addresses: readonly string[] }
  | { readonly hosts: readonly AllowedHost[] }
  /** `code` is an error code of Node.js. */
  | { readonly refused: string; readonly code: string }
  /** Sent later, when a connection did not end by itself: the reason, which begins with an error code of Node.js. */
  | { readonly ended: string };

/** The name of an egress socket in its folder. */
export const SOCKET_NAME = "door";
