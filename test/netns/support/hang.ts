/* Takes every connection to the given ports and never says a word. */
import { createServer } from 'node:net';

for (const port of process.argv.slice(2)) {
  createServer((socket) => socket.on('error', () => {})).listen(Number(port), '0.0.0.0');
}
