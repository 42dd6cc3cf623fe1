import { generateKeyPairSync, sign } from 'node:crypto';
import { isIPv4 } from 'node:net';

/*
 * A self-signed certificate for tests, made when it is needed: no private key lies in the repository and nothing
 * expires. Just enough DER (X.690) for an X.509 v3 certificate (RFC 5280) on P-256.
 */

function der(tag: number, ...contents: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(contents);
  const length =
    content.length < 128
      ? [content.length]
      : content.length < 256
        ? [0x81, content.length]
        : [0x82, content.length >> 8, content.length & 255];
  return Buffer.concat([Buffer.from([tag, ...length]), content]);
}

const sequence = (...items: readonly Uint8Array[]): Buffer => der(0x30, ...items);
const bits = (content: Uint8Array): Buffer => der(0x03, Buffer.from([0]), content);
const ECDSA_WITH_SHA256 = sequence(der(0x06, Buffer.from('2a8648ce3d040302', 'hex')));
const COMMON_NAME = der(0x06, Buffer.from('550403', 'hex'));
const SUBJECT_ALT_NAME = der(0x06, Buffer.from('551d11', 'hex'));
const BASIC_CONSTRAINTS = der(0x06, Buffer.from('551d13', 'hex'));

export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

interface Wishes {
  /** Names and IPv4 addresses that it is for. */
  readonly hosts?: readonly string[];
  /** In UTCTime: YYMMDDhhmmssZ. */
  readonly from?: string;
  readonly to?: string;
}

/** A certificate that is its own authority; for loopback, unless told otherwise. */
export function selfSigned(
  commonName: string,
  { hosts = ['127.0.0.1', 'localhost'], from = '200101000000Z', to = '491231235959Z' }: Wishes = {},
): Certificate {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const name = sequence(der(0x31, sequence(COMMON_NAME, der(0x0c, Buffer.from(commonName)))));
  const altNames = sequence(
    ...hosts.map((host) =>
      isIPv4(host) ? der(0x87, Buffer.from(host.split('.').map(Number))) : der(0x82, Buffer.from(host)),
    ),
  );
  const body = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))), // version 3
    der(0x02, Buffer.from([1])), // serial number
    ECDSA_WITH_SHA256,
    name,
    sequence(der(0x17, Buffer.from(from)), der(0x17, Buffer.from(to))),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(
      0xa3,
      sequence(
        sequence(SUBJECT_ALT_NAME, der(0x04, altNames)),
        sequence(
          BASIC_CONSTRAINTS,
          der(0x01, Buffer.from([0xff])),
          der(0x04, sequence(der(0x01, Buffer.from([0xff])))),
        ),
      ),
    ),
  );
  const certificate = sequence(body, ECDSA_WITH_SHA256, bits(sign('sha256', body, privateKey)));
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${certificate.toString('base64').replaceAll(/.{64}(?=.)/g, '$&\n')}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  };
}
