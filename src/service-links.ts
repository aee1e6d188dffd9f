/**
 * True for a variable that Kubernetes sets in each pod for a Service named `berth` or `berth-…`, such as
 * `BERTH_PORT=tcp://10.0.0.1:7420`: none of them is a setting.
 */
export function isServiceLink(name: string, value: string): boolean {
  return ADDRESS.test(value) ? PORT.test(name) || DETAIL.test(name) : DETAIL.test(name);
}

const ADDRESS = /^(?:tcp|udp|sctp):\/\//;
const PORT = /^BERTH_(?:[A-Z0-9_]+_)?PORT$/;
const DETAIL =
  /^BERTH_(?:[A-Z0-9_]+_)?(?:SERVICE_(?:HOST|PORT(?:_[A-Z0-9_]+)?)|PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)$/;

/** The environment without them. */
export function withoutServiceLinks(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name, value = ""]) => !isServiceLink(name, value)));
}
