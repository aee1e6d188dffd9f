import { spawn } from "node:child_process";
import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { fileURLToPath } from "node:url";
import { machine, pinned } from "./machine.mjs";

/**
 * The load: one wrk thread on the generator's core, keep-alive connections, one request repeated. The same for
 * every contestant. What comes back is checked: once in full before and after, in number and size while it runs.
 *
 * @typedef {{ requestsPerSecond: number, requests: number, p50Ms: number, p99Ms: number }} LoadResult
 */

const CONNECTIONS = 20;
const script = fileURLToPath(new URL("load.lua", import.meta.url));

/**
 * @param {number} port
 * @param {import("./requests.mjs").LoadRequest} request
 * @param {number} seconds
 * @param {number} answerBytes what one right answer takes on the wire, from {@link checkAnswer}
 * @returns {Promise<LoadResult>} Rejects when any answer failed, was late, or was of another size.
 */
export async function load(port, request, seconds, answerBytes) {
  const headers = Object.entries(request.headers).flatMap(([name, value]) => ["-H", `${name}: ${value}`]);
  const url = `http://127.0.0.1:${port}${request.path}`;
  const duration = seconds < 1 ? 1 : Math.round(seconds);
  const settings = `--threads 1 --connections ${CONNECTIONS} --duration ${duration}s --timeout 10s --latency`;
  const wrk = [machine.wrk, ...settings.split(" "), "--script", script, ...headers, url];
  const command = pinned(machine.generatorCore, wrk);
  const output = await run(command, { ...process.env, BENCH_BODY: request.body });
  const line = output.split("\n").find((text) => text.startsWith("BENCH "));
  if (!line) throw new Error(`wrk printed no result:\n${output}`);
  const { requests, durationUs, bytes, p50Us, p99Us, failed, statuses } = JSON.parse(line.slice(6));

  if (statuses > 0) throw new Error(`${statuses} of ${requests} answers to ${url} had an error status`);
  if (failed > 0) throw new Error(`${failed} requests to ${url} failed or took more than 10 s`);
  if (requests === 0) throw new Error(`no answer from ${url} in ${duration} s`);
  // Answers still on their way when time is up are read in part: at most one per connection.
  if (Math.abs(bytes - requests * answerBytes) > CONNECTIONS * answerBytes) {
    const mean = (bytes / requests).toFixed(1);
    throw new Error(`answers of ${url} had ${mean} bytes on average under load, but a right one has ${answerBytes}`);
  }
  return { requestsPerSecond: (requests * 1e6) / durationUs, requests, p50Ms: p50Us / 1000, p99Ms: p99Us / 1000 };
}

/**
 * Sends the request once and reads the answer. Rejects when it is not the right one.
 *
 * @param {number} port
 * @param {import("./requests.mjs").LoadRequest} request
 * @returns {Promise<number>} bytes of the whole answer on the wire
 */
export async function checkAnswer(port, request) {
  const outgoing = httpRequest({
    host: "127.0.0.1",
    port,
    path: request.path,
    method: "POST",
    agent: false,
    timeout: 15_000,
    headers: { ...request.headers, Connection: "keep-alive", "Content-Length": Buffer.byteLength(request.body) },
  });
  outgoing.on("timeout", () => outgoing.destroy(new Error(`no answer to ${request.path} in 15 s`)));
  outgoing.end(request.body);
  const [response] = await once(outgoing, "response");
  const { socket } = response;
  let text = "";
  response.setEncoding("utf8");
  for await (const chunk of response) text += chunk;
  const bytes = socket.bytesRead;
  socket.destroy();

  let answer;
  try {
    const events = response.headers["content-type"]?.startsWith("text/event-stream");
    answer = JSON.parse(events ? /^data: (.+)$/m.exec(text)[1] : text);
  } catch {
    answer = undefined;
  }
  if (response.statusCode !== 200 || !request.right(answer)) {
    throw new Error(`${request.path} gave a wrong answer (HTTP ${response.statusCode}): ${text.slice(0, 500)}`);
  }
  return bytes;
}

/** @param {string[]} command @param {NodeJS.ProcessEnv} env @returns {Promise<string>} */
async function run([file, ...args], env) {
  const child = spawn(file, args, { env, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  child.stdout.on("data", (chunk) => (output += chunk));
  child.stderr.on("data", (chunk) => (output += chunk));
  const [code] = await once(child, "close");
  if (code !== 0) throw new Error(`${file} ended with ${code}:\n${output}`);
  return output;
}
