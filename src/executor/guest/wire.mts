/**
 * The protocol between the host and a guest process: one JSON array per line, whose first element is the operation.
 * Both sides import this file; it has constants only, so that nothing of the host can leak into a guest.
 */

/** The frames that the host writes. */
export const toGuest = {
  /** [load, limits, environment or null, GuestSockets or null, SchemaRequest?], followed by the bundle */
  load: 0,
  /** [shape, index, CallShape]: calls refer to a shape by its index. */
  shape: 1,
  /** [call, call id, shape index, arguments, context?] */
  call: 2,
  /** [cancel, call id, "timeout" | "cancelled"] */
  cancel: 3,
  /**
   * [reply, request id, 1, value], [reply, request id, 0, message, { code, transient }?], or
   * [reply, request id, kind of the bytes], followed by the bytes
   */
  reply: 4,
  /** [credit, call id, count]: this many progress events were consumed. */
  credit: 5,
  /** [withBytes, length, frame], followed after its newline by that many bytes, which belong to the frame. */
  withBytes: 6,
} as const;

/** The kinds of bytes in a reply. */
export const replyKinds = { bytes: 2, text: 3, json: 4 } as const;

/** The frames that a guest writes. The host trusts none of them. */
export const toHost = {
  /** [ready]: the runner listens. */
  ready: 0,
  /** [loaded]: the bundle is evaluated. */
  loaded: 1,
  /** [loadFailed, message, stack?] */
  loadFailed: 2,
  /** [none, call id] */
  none: 3,
  /** [text, call id, text, mime type?] */
  text: 4,
  /** [json, call id, value, description of a value that is null only because JSON cannot represent it?] */
  json: 5,
  /** [bytes, call id, base64, mime type?] */
  bytes: 6,
  /** [failed, call id, "thrown" | "output" | "load" | "unwritable", message, stack | null, transient: 0 | 1, protocol?: 0 | 1] */
  failed: 7,
  /** [progress, call id, event] */
  progress: 8,
  /** [log, call id or 0, level, message, logger?] */
  log: 9,
  /** [request, call id, request id, operation, parameters] */
  request: 10,
  /** [cancelling, call id]: the event loop responds and has passed the cancellation on. */
  cancelling: 11,
  /** [asks, call id, { key: { method, params } }]: ends the call; it runs again once there are answers. */
  asks: 12,
  /** [task, call id]: its caller need not wait any longer. */
  task: 13,
  /** [closeStream, call id]: its caller's connection may end, if the result can be fetched later. */
  closeStream: 14,
  /** [redirect, call id, location]: the result is at another address. */
  redirect: 15,
  /** [described, answer, answer]: descriptions of the requested schemas at two different times. */
  described: 16,
} as const;

/** A call may be this many progress events ahead of its consumer before its generator waits. */
export const progressWindow = 64;

/** The host returns credit for this many consumed events at once. */
export const creditStep = 32;

/** The most questions one call may ask at a time, and the longest question key and logger name, in UTF-16 units. */
export const questionsMax = 32;
export const nameUnitsMax = 256;

/** The most values in a guest's message other than results and questions; a larger one is sent as JSON in a string. */
export const eventValuesMax = 10_000;

/** The longest message and stack of an error, in UTF-16 units. */
export const messageUnitsMax = 8_192;
export const stackUnitsMax = 16_384;

/** The longest note on what became null in a result, in UTF-16 units. */
export const nulledUnitsMax = 256;

/** Prefix of the environment variables that contain the paths of a program's folders: `BERTH_FOLDER_docs`. */
export const FOLDER_VARIABLE = "BERTH_FOLDER_";

/** The folder of a program's egress socket in the sandbox. */
export const SOCKETS = "/sbx/sockets";

/** The resolver and the proxy of scripts with a network (`forwarder.mts`). */
export const RESOLVER = { host: "127.0.0.2", port: 53 } as const;
export const PROXY = { host: "127.0.0.2", port: 1080 } as const;

/** Files of `/etc` that are generated for scripts with a network, and their folder. */
export const ETC = "/sbx/etc";
export const etcFiles = ["group", "hosts", "nsswitch.conf", "passwd", "resolv.conf"] as const;

/** The longest address of a redirect, in UTF-16 units. */
export const locationUnitsMax = 8_192;

/** The limits that the `load` frame passes to the runner. */
export interface GuestLimits {
  readonly outputBytes: number;
  readonly frameBytes: number;
}

/** The program's network, as the `load` frame passes it to the runner. */
export interface GuestSockets {
  readonly server: string;
  /** The folder of its egress socket; undefined if its entry lists no host. */
  readonly folder?: string;
  /** It should have an egress socket, but none could be created. */
  readonly isBroken?: boolean;
  /** The hosts that its code requests and is not granted, and how to grant them, as part of a sentence. */
  readonly requested?: string;
  /** See `ListOptions`. */
  readonly byOperator?: boolean;
}
