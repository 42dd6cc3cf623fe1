import { OpenAPIHono } from '@hono/zod-openapi';
import { HTTPException } from 'hono/http-exception';
import { Admission } from './admission.ts';
import { beats } from './beats.ts';
import { doctor } from './doctor.ts';
import { healthz } from './healthz.ts';
import { holds } from './holds.ts';
import { page } from './page.tsx';
import type { AppDeps } from './ports.ts';
import { problem } from './problem.ts';
import { sockets } from './sockets.ts';
import { status } from './status.ts';
import { StatusCache } from './status-cache.ts';

const DESCRIPTION = `Signed heartbeats in, verdicts on nodes out. Errors are problem details (RFC 9457) with a stable \`code\`.
Fields and codes are only ever added; ignore those you do not know.`;

/**
 * The whole HTTP side of the Worker. One app an isolate: its short memories and its status cache live as long as it.
 */
export function createApp(deps: AppDeps): OpenAPIHono {
  const app = new OpenAPIHono({
    defaultHook: (result) => {
      if (result.success) return undefined;
      const issue = result.error.issues[0];
      return problem('invalid-request', {
        detail: `${issue?.path.join('.') ?? 'request'}: ${issue?.message ?? 'not valid'}`,
      });
    },
  });
  const cache = new StatusCache(deps);

  const admission = new Admission();
  beats(app, deps, admission);
  sockets(app, deps, admission);
  status(app, deps, cache);
  holds(app, deps, cache);
  doctor(app, deps);
  healthz(app, deps);
  page(app, deps, cache);

  app.openAPIRegistry.registerComponent('securitySchemes', 'bearer', {
    type: 'http',
    scheme: 'bearer',
    description: 'The read token or the admin token of this deployment.',
  });
  app.doc31('/v1/openapi.json', {
    openapi: '3.1.0',
    info: { title: 'farpulse', version: '1', description: DESCRIPTION },
  });

  app.notFound(() => problem('not-found'));
  app.onError((error) => {
    if (error instanceof HTTPException && error.status < 500) {
      return problem(error.status === 403 ? 'forbidden' : 'invalid-request');
    }
    // For the operator's log; the client gets no text of ours that a defect could have filled with anything.
    console.error(error);
    return problem('internal');
  });
  return app;
}
