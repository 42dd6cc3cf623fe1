/*
 * Fills the node's uplink with UDP to a port that discards: 5,000 packets a second, for half a minute at most. They
 * are small, or a beat would always find its place between them: it is one packet itself.
 */
import { createSocket } from 'node:dgram';
import { EDGE_V4 } from './namespaces.ts';

const DISCARD_PORT = 9;
const PACKET = Buffer.alloc(32);
const PACKETS_PER_TURN = 100;
const TURN_MS = 20;
const LONGEST_MS = 30_000;

const socket = createSocket('udp4');
socket.on('error', () => {});
setInterval(() => {
  for (let packet = 0; packet < PACKETS_PER_TURN; packet++)
    socket.send(PACKET, DISCARD_PORT, EDGE_V4, () => {});
}, TURN_MS);
setTimeout(() => process.exit(0), LONGEST_MS);
