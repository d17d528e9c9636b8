const get = (path) => fetch("/api" + path);
export const job = await get("/workspaces/team-1/nodes/jobs/42");
