import { request, type IncomingHttpHeaders, type OutgoingHttpHeaders, type RequestListener } from "node:http";

/** Passes each request on to the URL for its path, with the headers that `change` returns, and its answer back. */
export function forwarding(
  urlFor: (path: string) => string,
  change: (headers: Omit<IncomingHttpHeaders, "host">) => OutgoingHttpHeaders,
): RequestListener {
  return (incoming, response) => {
    const { host: _, ...headers } = incoming.headers;
    const options = { method: incoming.method, headers: change(headers) };
    const onward = request(urlFor(incoming.url!), options, (answer) => {
      response.writeHead(answer.statusCode!, answer.headers);
      answer.pipe(response);
    });
    onward.on("error", () => response.destroy());
    response.on("close", () => onward.destroy());
    incoming.pipe(onward);
  };
}
