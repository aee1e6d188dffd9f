import type { Host } from "../../host/host.ts";
import type { Era } from "../protocol.ts";
import type { Sealer } from "../seal.ts";
import { modernClient } from "./client.ts";
import { createModernCodec } from "./codec.ts";
import { Listeners } from "./listeners.ts";
import { createRounds } from "./rounds.ts";

/**
 * The modern era, 2026-07-28 and later: no handshake and no session. Each request says what it stands under, and
 * what it leaves open the client carries. Nothing here outlives a request but the streams that wait for news.
 */
export interface Modern extends Era {
  /** Ends the streams that wait for news, each with its result. */
  close(): void;
}

export interface ModernLimits {
  readonly requestStateMs: number;
}

export interface ModernOptions {
  readonly host: Host;
  readonly berthVersion: string;
  readonly sealer: Sealer;
  readonly limits: ModernLimits;
}

export function createModern({ host, berthVersion, sealer, limits }: ModernOptions): Modern {
  const listeners = new Listeners(host);
  const rounds = createRounds({ host, sealer, requestStateMs: limits.requestStateMs });
  return {
    codec: createModernCodec({ host, berthVersion, rounds, listeners }),
    clientOf: modernClient,
    close: () => listeners.close(),
  };
}
