import type { CallShape, SchemaRequest } from "../../discover/discovery.ts";
import type { Json, JsonObject } from "../../lib/json.ts";
import { loadBundle } from "./bundle.mts";
import { cancelCall, defineShape, startCall } from "./calls.mts";
import { captureConsole } from "./console.mts";
import { describe } from "./errors.mts";
import { prepareGlobals } from "./globals.mts";
import { settleRequest } from "./host.mts";
import { guardFolders } from "./links.mts";
import { flush, listen, send } from "./pipe.mts";
import { credit } from "./progress.mts";
import { describeTwice } from "./schemas.mts";
import { connectSockets, patchSockets } from "./sockets.mts";
import { setLimits } from "./values.mts";
import { toGuest, toHost, type GuestLimits, type GuestSockets } from "./wire.mts";

/**
 * The runner in a guest process: it takes one program, and calls its functions as long as the process lives. It trusts
 * the host and not the program, but has no privileges that the program lacks: code that breaks out of the runner gains
 * nothing.
 */
/** Frames that arrived while the bundle was being evaluated; none of them is a reply. */
let queued: unknown[][] | undefined = [];
let bundle: Record<string, unknown>;

prepareGlobals();
patchSockets();
captureConsole();
if (!process.execPath.startsWith("/sbx/")) guardFolders();
listen((frame, bytes) => {
  if (frame[0] === toGuest.load) {
    void load(bytes!, ...(frame.slice(1) as LoadArguments));
  } else if (queued) queued.push(frame);
  else handleFrame(frame, bytes);
});
send(`[${toHost.ready}]`);

function handleFrame(frame: unknown[], bytes?: Uint8Array): void {
  switch (frame[0]) {
    case toGuest.call:
      return startCall(frame[1] as number, frame[2] as number, frame[3] as JsonObject, frame[4] as JsonObject);
    case toGuest.shape:
      return defineShape(frame[1] as number, frame[2] as CallShape, bundle);
    case toGuest.cancel:
      return cancelCall(frame[1] as number, frame[2] as "timeout" | "cancelled");
    case toGuest.reply:
      return settleRequest(frame[1] as number, frame[2] as number, frame[3] as Json, bytes, frame[4] as object);
    case toGuest.credit:
      return credit(frame[1] as number, frame[2] as number);
  }
}

type LoadArguments = [
  limits: GuestLimits,
  env?: Readonly<Record<string, string>> | null,
  sockets?: GuestSockets | null,
  request?: SchemaRequest,
];

async function load(code: Uint8Array, ...[limits, env, sockets, request]: LoadArguments): Promise<void> {
  setLimits(limits);
  connectSockets(sockets ?? undefined);
  // Set here, where they no longer affect Node and no process list shows them.
  Object.assign(process.env, env);
  try {
    if (request) return send(JSON.stringify([toHost.described, ...(await describeTwice(request, code))]));
    bundle = await loadBundle(code);
  } catch (error) {
    const { message, stack } = describe(error);
    return send(JSON.stringify([toHost.loadFailed, message, stack]));
  }
  send(`[${toHost.loaded}]`);
  // A first call may end the process: without this, a bundle that loads would look like one that does not.
  flush();
  const frames = queued!;
  queued = undefined;
  for (const frame of frames) handleFrame(frame);
}
