import { badRequest } from './api-error.ts';
import type { KubeObject } from './objects.ts';
import type { Resource } from './resources.ts';

type Match = (object: KubeObject) => boolean;

const WORD = String.raw`[A-Za-z0-9](?:[\w./-]*[A-Za-z0-9])?`;
const EQUALITY = new RegExp(String.raw`^(${WORD})\s*(==?|!=)\s*(${WORD}|)$`);
const SET = new RegExp(String.raw`^(${WORD})\s+(in|notin)\s*\(([^()]*)\)$`);
const EXISTENCE = new RegExp(String.raw`^(!?)\s*(${WORD})$`);

/** `a=b, c!=d, e in (f, g), h notin (i), j, !k`: all must hold. */
export function labelSelector(text: string): Match {
  // Commas inside parentheses belong to the set.
  const terms = text.split(/,(?![^(]*\))/).map((term) => term.trim());
  const matches = terms.filter((term) => term !== '').map(labelTerm);
  return (object) => matches.every((match) => match(object.metadata.labels ?? {}));
}

function labelTerm(term: string): (labels: Readonly<Record<string, string>>) => boolean {
  const equality = EQUALITY.exec(term);
  if (equality !== null) {
    const [, key = '', operator, value] = equality;
    return (labels) => (labels[key] === value) === (operator !== '!=');
  }
  const set = SET.exec(term);
  if (set !== null) {
    const [, key = '', operator, list = ''] = set;
    const values = new Set<string | undefined>(list.split(',').map((value) => value.trim()));
    return (labels) => values.has(labels[key]) === (operator === 'in');
  }
  const existence = EXISTENCE.exec(term);
  if (existence !== null) {
    const [, not, key = ''] = existence;
    return (labels) => key in labels === (not === '');
  }
  const found = term.split(/\s+/)[1] ?? term;
  throw badRequest(`unable to parse requirement: found '${found}', expected: in, notin, =, ==, !=, gt, lt`);
}

/** Equality only, and only of the fields that the resource can be selected by. */
export function fieldSelector(text: string, resource: Resource): Match {
  const terms = text.split(',').filter((term) => term !== '');
  const matches = terms.map((term): Match => {
    const [, field = '', operator, value] = /^([^=!]+)(==?|!=)(.*)$/.exec(term) ?? [];
    const read = field === '' ? undefined : readerOf(field, resource);
    if (read === undefined) throw badRequest(`field label not supported: ${term}`);
    return (object) => (read(object) === value) === (operator !== '!=');
  });
  return (object) => matches.every((match) => match(object));
}

function readerOf(field: string, resource: Resource): ((object: KubeObject) => string) | undefined {
  if (field === 'metadata.name') return (object) => object.metadata.name;
  if (field === 'metadata.namespace' && resource.namespaced)
    return (object) => object.metadata.namespace ?? '';
  return resource.selectable[field];
}

/** The value that a selector demands of a field by equality, for access that depends on it. */
export function selectedValue(text: string, field: string): string | undefined {
  const term = text.split(',').find((part) => part.startsWith(`${field}=`));
  return term?.slice(field.length).replace(/^==?/, '');
}
