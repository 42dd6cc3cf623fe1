import { annotateCommand } from '../enrolment.ts';
import { loadOrMakeKey } from '../key-file.ts';
import type { LocalSettings } from '../settings.ts';
import { OK, type Print } from './output.ts';

/** Makes the key if there is none, and shows what may be shown of it. */
export async function keyCommand({ keyFile, node }: LocalSettings, print: Print): Promise<number> {
  const { kid, made, publicKey } = await loadOrMakeKey(keyFile);
  print(`${made ? 'made' : 'found'} ${keyFile}`);
  print(`thumbprint ${kid}`);
  print(`an admin enrols it with: ${annotateCommand(node, publicKey)}`);
  return OK;
}
