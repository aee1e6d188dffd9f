import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { listening } from "./listening.ts";

/** A way to a Postgres through which a test can lose connections. */
export interface PostgresWay {
  readonly url: string;
  /** Loses all connections, and takes no more until it is mended. */
  cut(): void;
  mend(): void;
  /** New connections go to another server. */
  leadTo(url: string): void;
  close(): Promise<void>;
}

/** A message is lost on the way with its connection, or its answer is, or nothing ever comes of it. */
type Fate = "lost" | "unanswered" | "mute" | undefined;

/** `judge` is called with each text that is sent. */
export async function openWay(url: string, judge: (sent: string) => Fate = () => undefined): Promise<PostgresWay> {
  let to = new URL(url);
  const sockets = new Set<Socket>();
  let isCut = false;
  const server = createServer((client) => {
    if (isCut) return void client.destroy();
    const upstream = connect(Number(to.port), to.hostname);
    let [isUnanswered, isMute] = [false, false];
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        sockets.delete(socket);
        if (!isMute) other.destroy();
      });
    }
    client.on("data", (chunk) => {
      const fate = judge(chunk.toString("latin1"));
      if (fate === "lost") return void client.destroy();
      isMute ||= fate === "mute";
      isUnanswered ||= fate === "unanswered";
      if (isMute) return;
      upstream.write(chunk);
    });
    upstream.on("data", (chunk) => {
      if (isMute) return;
      if (isUnanswered) client.destroy();
      else client.write(chunk);
    });
  });
  const own = new URL(url);
  own.port = String(await listening(server));
  const cut = (): void => {
    isCut = true;
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: own.href,
    cut,
    mend: () => void (isCut = false),
    leadTo: (other) => void (to = new URL(other)),
    async close() {
      cut();
      server.close();
      await once(server, "close");
    },
  };
}
