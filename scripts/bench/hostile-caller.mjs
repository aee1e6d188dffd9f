/**
 * The attacker, as a process of its own that yields to all others: what it costs to write four megabytes and to read
 * them is the attacker's affair, and must not count as a pause of the service.
 */

const [port] = process.argv.slice(2);

process.on("message", (wanted) => {
  call(wanted).then(
    (answer) => process.send({ answer }),
    (error) => process.send({ failed: error.message }),
  );
});
process.on("disconnect", () => process.exit());
process.send({ ready: true });

/** Gives the beginning of the answer. @param {{ server: string, tool: string, args: string, times: number }} wanted */
async function call({ server, tool, args, times }) {
  const body = Buffer.from(
    `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"${tool}","arguments":${args}}}`,
  );
  let answer = "";
  for (let time = 0; time < times; time++) {
    const response = await fetch(`http://127.0.0.1:${port}/mcp/${server}`, {
      method: "POST",
      headers: {
        "Content-Type": "application/json",
        Accept: "application/json",
        "MCP-Protocol-Version": "2025-06-18",
      },
      body,
    });
    answer = (await response.text()).slice(0, 120);
  }
  return answer;
}
