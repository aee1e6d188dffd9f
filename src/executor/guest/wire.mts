/**
 * The language that the host and a guest process speak: one JSON array a line, its first element the operation.
 * Both sides import this file; it holds constants only, so that nothing of the host can leak into a guest.
 */

/** The frames that the host writes. */
export const toGuest = {
  /** [load, limits, environment or null, GuestSockets or null, SchemaRequest?], with the bundle's text */
  load: 0,
  /** [shape, index, CallShape]: calls name a shape by its index. */
  shape: 1,
  /** [call, call id, shape index, arguments, context?] */
  call: 2,
  /** [cancel, call id, "timeout" | "cancelled"] */
  cancel: 3,
  /**
   * [reply, request id, 1, value], [reply, request id, 0, message, { code, transient }?], or
   * [reply, request id, kind of its bytes] with them
   */
  reply: 4,
  /** [credit, call id, count]: that many progress events were consumed. */
  credit: 5,
  /** [withBytes, length, frame], and after its newline that many bytes, which belong to the frame. */
  withBytes: 6,
} as const;

/** The kinds of bytes in a reply. */
export const replyOf = { bytes: 2, text: 3, json: 4 } as const;

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
  /** [json, call id, value, which part of it is null only because JSON cannot express it?] */
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
  /** [cancelling, call id]: the event loop is alive and has passed the cancellation on. */
  cancelling: 11,
  /** [asks, call id, { key: { method, params } }]: the call is over until there are answers. */
  asks: 12,
  /** [task, call id]: its caller need not wait any more. */
  task: 13,
  /** [closeStream, call id]: its caller's connection may end, if the result can be fetched later. */
  closeStream: 14,
  /** [redirect, call id, location]: the result stands at another address. */
  redirect: 15,
  /** [described, answer, answer]: what the schemas of a request say, at two different times. */
  described: 16,
} as const;

/** A call may be this many progress events ahead of its consumer before its generator waits. */
export const progressWindow = 64;

/** The host returns credit for this many consumed events at once. */
export const creditStep = 32;

/** The most questions one call may ask at a time, and the longest question key and logger name, in UTF-16 units. */
export const questionsMax = 32;
export const nameUnitsMax = 256;

/** The most values in a guest's message other than results and questions; a larger one is sent as its JSON text. */
export const eventValuesMax = 10_000;

/** The longest message and stack of an error, in UTF-16 units. */
export const messageUnitsMax = 8_192;
export const stackUnitsMax = 16_384;

/** The longest note on what became null in a result, in UTF-16 units. */
export const nulledUnitsMax = 256;

/** Begins the variables of a program's environment that say where its folders are: `BERTH_FOLDER_docs`. */
export const FOLDER_VARIABLE = "BERTH_FOLDER_";

/** The folder of a program's way out, in the sandbox. */
export const SOCKETS = "/sbx/sockets";

/** Where scripts with a network find names, and a proxy (`forwarder.mts`). */
export const RESOLVER = { host: "127.0.0.2", port: 53 } as const;
export const PROXY = { host: "127.0.0.2", port: 1080 } as const;

/** Files of `/etc` that are made for scripts with a network, and the folder that they are made in. */
export const ETC = "/sbx/etc";
export const etcFiles = ["group", "hosts", "nsswitch.conf", "passwd", "resolv.conf"] as const;

/** The longest address of a redirect, in UTF-16 units. */
export const locationUnitsMax = 8_192;

/** The limits that `load` tells the runner. */
export interface GuestLimits {
  readonly outputBytes: number;
  readonly frameBytes: number;
}

/** The program's network, as `load` tells the runner of it. */
export interface GuestSockets {
  readonly server: string;
  /** The folder of its way out; undefined where its entry lists no host. */
  readonly folder?: string;
  /** It was to have a way out, which could not be made. */
  readonly isBroken?: boolean;
  /** The hosts that its code requests and is not granted, and how to accept that, as a part of a sentence. */
  readonly requested?: string;
  /** See `ListOptions`. */
  readonly byOperator?: boolean;
}
