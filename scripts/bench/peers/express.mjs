import express from "express";
import { answerTo } from "./answer.mjs";
import { port } from "./tools.mjs";

/** Express 5 as it comes: its body parser, its JSON answer. No protocol, no checks. */
const app = express();
app.use(express.json());
app.post("/mcp", (request, response) => {
  response.json(answerTo(request.body));
});
app.listen(port, "127.0.0.1");
