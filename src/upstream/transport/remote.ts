import { BerthError } from "../../lib/errors.ts";
import { Redactor } from "../../lib/redactor.ts";
import { within } from "../../lib/within.ts";
import { limitVariable } from "../../limits/limits.ts";
import type { RemoteLaunch } from "../launch/launch.ts";
import { UpstreamError } from "../messages/upstream-error.ts";
import type { ConnectOptions, Peer } from "./channel.ts";
import { aborted } from "./child.ts";
import { discover, requestMeta, handshakeBounds, initialize, MODERN_VERSION } from "./handshake.ts";
import { networkFailure, type RemoteAddress } from "./http-error.ts";
import { HttpLink } from "./http-link.ts";
import { HttpSse } from "./http-sse.ts";
import { Inflow } from "./inflow.ts";
import { OpenQuestions, type Questions } from "./questions.ts";
import { RpcChannel, type Opened } from "./rpc-channel.ts";
import { StreamableHttp } from "./streamable-http.ts";

/**
 * Reaches a remote server: by Streamable HTTP in the modern era, then in the legacy one, then by HTTP+SSE of
 * 2024-11-05, each if the previous one is refused in any way.
 */
export async function openRemote(
  { name, era }: RemoteLaunch,
  address: Pick<RemoteAddress, "url" | "headers"> & { readonly secrets: readonly string[] },
  options: ConnectOptions,
  questions: Questions,
): Promise<Opened> {
  const { limits, long, rooms, send } = options;
  const { upstreamStartMs, upstreamMessageBytes } = limits;
  const what = `reaching ${name}`;
  const inflow = new Inflow();
  const openQuestions = new OpenQuestions(inflow);
  const link = new HttpLink({ messageBytes: upstreamMessageBytes, inflow, long, budget: rooms?.unfinished, send });
  const redactor = new Redactor();
  for (const secret of address.secrets) redactor.add(secret);
  const remote = {
    url: address.url,
    headers: address.headers,
    hasToken: Object.keys(address.headers).length > 0 || address.url.search !== "",
    hide: (text: string) => redactor.hide(text),
  };
  const timeout = AbortSignal.timeout(upstreamStartMs);
  const signal = AbortSignal.any([timeout, openQuestions.tooMany, ...(options.signal ? [options.signal] : [])]);
  let last: StreamableHttp | HttpSse | undefined;

  const handshake = async (
    transport: StreamableHttp | HttpSse,
    agree: (channel: RpcChannel) => Promise<Peer | undefined>,
  ): Promise<Opened | undefined> => {
    const channel = new RpcChannel((last = transport), options, questions, openQuestions);
    try {
      const peer = await Promise.race([agree(channel), aborted(signal, undefined)]);
      if (!peer || signal.aborted) throw new UpstreamError("upstream_refused", `${what}: it is not of the modern era`);
      await channel.completeHandshake(peer, requestMeta(options));
      return { channel, peer };
    } catch (error) {
      void transport.close();
      throw error;
    }
  };
  const overHttp = (
    kind: Peer["era"],
    agree: (channel: RpcChannel) => Promise<Peer | undefined>,
  ): Promise<Opened | undefined> =>
    handshake(new StreamableHttp(link, remote, limits, kind, kind === "modern" ? MODERN_VERSION : undefined), agree);
  const modern = (): Promise<Opened | undefined> =>
    overHttp("modern", (channel) => within(handshakeBounds.upstreamProbeMs, discover(channel, options, what)));
  const legacy = (channel: RpcChannel): Promise<Peer> => initialize(channel, options, what);

  try {
    // The reason why it is not modern says nothing about the server.
    if (era !== "legacy") {
      const opened = await modern().catch((error: unknown) => {
        const isAnswer = error instanceof UpstreamError && error.code !== "upstream_not_started";
        if (era === "modern" || signal.aborted || !isAnswer) throw error;
        return undefined;
      });
      if (opened) return opened;
    }
    try {
      return (await overHttp("legacy", legacy))!;
    } catch (error) {
      if (signal.aborted || !mayBeOlder(error)) throw error;
      const transport = new HttpSse(link, remote);
      const stop = (): void => void transport.close();
      signal.addEventListener("abort", stop);
      try {
        // Without such a stream, the first error is more useful.
        await transport.open().catch(() => {
          throw error;
        });
        return (await handshake(transport, legacy))!;
      } finally {
        signal.removeEventListener("abort", stop);
      }
    }
  } catch (error) {
    await last?.close();
    if (options.signal?.aborted) throw new BerthError("cancelled", what);
    if (openQuestions.tooMany.aborted)
      throw new UpstreamError("upstream_not_started", `${what}: it ${openQuestions.fault}`);
    if (timeout.aborted) {
      const detail = `${what} within ${upstreamStartMs / 1000} s (${limitVariable("upstreamStartMs")})`;
      throw new UpstreamError("upstream_timeout", detail, { cause: error });
    }
    const failure = error instanceof BerthError ? error : networkFailure(error, remote)(what);
    if (failure.code === "cancelled" || failure.code === "no_descriptors") throw failure;
    throw new UpstreamError("upstream_not_started", failure.detail, {
      ...(failure.data && { data: failure.data }),
      cause: error,
    });
  }
}

/** A server of HTTP+SSE accepts no POST at its address (2025-11-25 `basic/transports`, "Backwards Compatibility"). */
function mayBeOlder(error: unknown): boolean {
  const refusal = error instanceof UpstreamError ? error : (error as Error).cause;
  const status = refusal instanceof UpstreamError ? Number(refusal.data?.["status"]) : NaN;
  return status >= 400 && status < 500 && status !== 401 && status !== 403 && status !== 429;
}
