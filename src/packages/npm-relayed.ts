import { Socket } from "node:net";

/**
 * Loaded into npm's process before npm: each connection that it opens, to whatever host, is one to the relay of the
 * registry. The sandbox has no other way out; this is only how npm, which knows addresses alone, finds it.
 */
const relay = process.env["BERTH_RELAY"]!;
delete process.env["BERTH_RELAY"];

type Connect = (this: Socket, options: { path: string }, listener?: () => void) => Socket;
// It is called with its socket below.
// oxlint-disable-next-line typescript/unbound-method
const connect = Socket.prototype.connect as Connect;

Socket.prototype.connect = function toRelay(this: Socket, ...given: unknown[]): Socket {
  // Node itself passes its arguments in a list.
  const all = given.flatMap((each) => (Array.isArray(each) ? (each as unknown[]) : [each]));
  const listener = all.find((each) => typeof each === "function");
  return connect.call(this, { path: relay }, listener as (() => void) | undefined);
};
