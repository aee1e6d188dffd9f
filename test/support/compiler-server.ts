/** The compiler of a test run, at the socket that its argument names: source in, result out. */
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import { compileDefinition, type CompileTask } from "../../src/discover/compile.ts";
import type { DefinitionSource } from "../../src/discover/discovery.ts";

const done = new Map<string, Promise<string>>();

async function compiled(task: CompileTask, source: string): Promise<string> {
  let isUnevaluated = false as boolean;
  const result = await compileDefinition(
    task,
    JSON.parse(source) as DefinitionSource,
    undefined,
    undefined,
    async () => {
      isUnevaluated = true;
      return { fault: "nothing can be evaluated here" };
    },
  );
  return JSON.stringify({ ...result, ...(isUnevaluated && { isUnevaluated }) });
}

const server = createServer((request, response) => {
  void text(request)
    .then((source) => {
      const task = request.url!.slice(1) as CompileTask;
      const key = `${task} ${source}`;
      if (!done.has(key)) done.set(key, compiled(task, source));
      return done.get(key)!;
    })
    .then(
      (body) => response.end(body),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
});
server.listen(process.argv[2], () => process.send?.("listening"));
process.once("disconnect", () => process.exit());
