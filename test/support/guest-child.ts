import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { TestContext } from "node:test";

/** Runs a bundle as a guest would: in a process without files, children and workers, evaluated from a `data:` URL. */
export interface GuestChild {
  /** The value of an expression over `m`, the bundle's module; rejects with what it threw. */
  evaluate(expression: string): Promise<unknown>;
  /** Calls an exported function. */
  call(name: string, ...args: readonly unknown[]): Promise<unknown>;
}

const runner = `
  const lines = (await import("node:readline")).createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  const next = async () => JSON.parse((await lines.next()).value);
  const m = await import("data:text/javascript;base64," + Buffer.from(await next()).toString("base64"));
  for (;;) {
    const { value, done } = await lines.next();
    if (done) break;
    let answer;
    try {
      answer = { value: await new Function("m", "return " + JSON.parse(value))(m) };
    } catch (error) {
      answer = { error: { name: error?.name, message: String(error?.message ?? error) } };
    }
    process.stdout.write(JSON.stringify(answer) + "\\n");
  }`;

export function openGuest(context: Pick<TestContext, "after">, code: string): GuestChild {
  const permission = process.allowedNodeEnvironmentFlags.has("--permission")
    ? "--permission"
    : "--experimental-permission";
  const child = spawn(process.execPath, ["--no-warnings", permission, "--input-type=module", "-e", runner], {
    stdio: ["pipe", "pipe", "inherit"],
    env: {},
  });
  const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const send = (value: unknown) => child.stdin.write(`${JSON.stringify(value)}\n`);
  send(code);
  context.after(() => void child.kill("SIGKILL"));

  let last: Promise<unknown> = Promise.resolve();
  const evaluate = (expression: string): Promise<unknown> => {
    const answer = last
      .catch(() => undefined)
      .then(async () => {
        send(expression);
        const line = await answers.next();
        if (line.done) throw new Error("the guest's process ended");
        const { value, error } = JSON.parse(line.value) as { value?: unknown; error?: Error };
        if (error) throw Object.assign(new Error(error.message), error);
        return value;
      });
    last = answer;
    return answer;
  };
  return {
    evaluate,
    call: (name, ...args) => evaluate(`m[${JSON.stringify(name)}](...${JSON.stringify(args)})`),
  };
}
