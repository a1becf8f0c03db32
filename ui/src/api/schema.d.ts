// Written by `npm run types` from docs/reference/openapi.json. Do not edit by hand.
export interface paths {
    "/api/agent/jobs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_jobs_api_agent_jobs_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agent/jobs/{job_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_job_api_agent_jobs__job_id__get"];
        put?: never;
        post?: never;
        delete: operations["delete_job_api_agent_jobs__job_id__delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agent/jobs/{job_id}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["cancel_job_api_agent_jobs__job_id__cancel_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agent/jobs/{job_id}/progress": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["stream_job_api_agent_jobs__job_id__progress_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agent/jobs/execute": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["execute_job_api_agent_jobs_execute_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agent/schedule": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["preview_schedule_api_agent_schedule_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agent/tasks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_tasks_api_agent_tasks_get"];
        put?: never;
        post: operations["create_task_api_agent_tasks_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agent/tasks/{name}/execute": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["execute_task_api_agent_tasks__name__execute_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agent/tasks/{task_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_task_api_agent_tasks__task_id__get"];
        put: operations["edit_task_api_agent_tasks__task_id__put"];
        post?: never;
        delete: operations["delete_task_api_agent_tasks__task_id__delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agent/tasks/{task_id}/disable": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["disable_task_api_agent_tasks__task_id__disable_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agent/tasks/{task_id}/enable": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["enable_task_api_agent_tasks__task_id__enable_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agent/tasks/{task_id}/webhook-secret": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_webhook_secret_api_agent_tasks__task_id__webhook_secret_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_agents_api_agents_get"];
        put?: never;
        post: operations["create_agent_api_agents_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_agent_api_agents__name__get"];
        put: operations["put_agent_api_agents__name__put"];
        post?: never;
        delete: operations["delete_agent_api_agents__name__delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/{name}/chat": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["chat_with_agent_api_agents__name__chat_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/{name}/clone": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["clone_agent_api_agents__name__clone_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/{name}/config": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_agent_config_api_agents__name__config_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/{name}/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["export_agent_api_agents__name__export_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/{name}/files": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["fetch_agent_file_api_agents__name__files_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/{name}/observables": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_observables_api_agents__name__observables_get"];
        put?: never;
        post?: never;
        delete: operations["clear_observables_api_agents__name__observables_delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/{name}/pause": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put: operations["pause_agent_api_agents__name__pause_put"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/{name}/resume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put: operations["resume_agent_api_agents__name__resume_put"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/{name}/sse": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["stream_agent_api_agents__name__sse_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/{name}/status": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_agent_status_api_agents__name__status_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/{name}/threads": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_threads_api_agents__name__threads_get"];
        put?: never;
        post: operations["create_thread_api_agents__name__threads_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/{name}/threads/{thread_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_thread_api_agents__name__threads__thread_id__get"];
        put?: never;
        post?: never;
        delete: operations["delete_thread_api_agents__name__threads__thread_id__delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/{name}/threads/{thread_id}/messages": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_messages_api_agents__name__threads__thread_id__messages_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/collections": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_collections_api_agents_collections_get"];
        put?: never;
        post: operations["create_collection_api_agents_collections_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/collections/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_collection_api_agents_collections__name__get"];
        put?: never;
        post?: never;
        delete: operations["delete_collection_api_agents_collections__name__delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/collections/{name}/entries": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_entries_api_agents_collections__name__entries_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/collections/{name}/entries-raw/{entry}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["download_entry_api_agents_collections__name__entries_raw__entry__get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/collections/{name}/entries/{entry}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["read_entry_api_agents_collections__name__entries__entry__get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/collections/{name}/entry/delete": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        delete: operations["delete_entry_api_agents_collections__name__entry_delete_delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/collections/{name}/reset": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["reset_collection_api_agents_collections__name__reset_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/collections/{name}/search": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["query_collection_api_agents_collections__name__search_get"];
        put?: never;
        post: operations["search_collection_api_agents_collections__name__search_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/collections/{name}/sources": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_sources_api_agents_collections__name__sources_get"];
        put?: never;
        post: operations["add_source_api_agents_collections__name__sources_post"];
        delete: operations["delete_source_api_agents_collections__name__sources_delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/collections/{name}/upload": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["upload_entry_api_agents_collections__name__upload_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/config/metadata": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_agent_form_api_agents_config_metadata_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/git-repos": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_skill_repos_api_agents_git_repos_get"];
        put?: never;
        post: operations["add_skill_repo_api_agents_git_repos_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/git-repos/{repo_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_skill_repo_api_agents_git_repos__repo_id__get"];
        put: operations["put_skill_repo_api_agents_git_repos__repo_id__put"];
        post?: never;
        delete: operations["delete_skill_repo_api_agents_git_repos__repo_id__delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/git-repos/{repo_id}/sync": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["sync_skill_repo_api_agents_git_repos__repo_id__sync_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/git-repos/{repo_id}/toggle": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["toggle_skill_repo_api_agents_git_repos__repo_id__toggle_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/import": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["import_agent_api_agents_import_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/skills": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_skills_api_agents_skills_get"];
        put?: never;
        post: operations["create_skill_api_agents_skills_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/skills/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_skill_api_agents_skills__name__get"];
        put: operations["put_skill_api_agents_skills__name__put"];
        post?: never;
        delete: operations["delete_skill_api_agents_skills__name__delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/skills/{name}/resources": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_skill_files_api_agents_skills__name__resources_get"];
        put?: never;
        post: operations["upload_skill_file_api_agents_skills__name__resources_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/skills/{name}/resources/{path}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["read_skill_file_api_agents_skills__name__resources__path__get"];
        put: operations["put_skill_file_api_agents_skills__name__resources__path__put"];
        post?: never;
        delete: operations["delete_skill_file_api_agents_skills__name__resources__path__delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/skills/config": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_skill_limits_api_agents_skills_config_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/skills/export/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["export_skill_api_agents_skills_export__name__get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/skills/import": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["import_skills_api_agents_skills_import_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents/skills/search": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["search_skills_api_agents_skills_search_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/audit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_audit_api_audit_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/backend-intents": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_assignments_api_backend_intents_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/backend-intents/{node}/{backend}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        delete: operations["discard_assignment_api_backend_intents__node___backend__delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/backend-intents/{node}/{backend}/revive": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["retry_assignment_api_backend_intents__node___backend__revive_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/backends": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_catalog_api_backends_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/backends/delete/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["delete_backend_api_backends_delete__name__post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/backends/galleries": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_backend_galleries_api_backends_galleries_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/backends/galleries/refresh": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["refresh_backend_galleries_api_backends_galleries_refresh_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/backends/install-external": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["install_external_backend_api_backends_install_external_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/backends/install/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["install_backend_api_backends_install__name__post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/backends/job/{uid}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_backend_job_api_backends_job__uid__get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/backends/reinstall/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["reinstall_backend_api_backends_reinstall__name__post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/backends/rollback/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["roll_back_backend_api_backends_rollback__name__post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/backends/system/delete/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["delete_system_backend_api_backends_system_delete__name__post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/backends/upgrade/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["upgrade_backend_api_backends_upgrade__name__post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/backends/upgrades": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_upgrades_api_backends_upgrades_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/backends/upgrades/apply": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["apply_upgrades_api_backends_upgrades_apply_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/backends/upgrades/check": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["check_upgrades_api_backends_upgrades_check_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/backends/usecases": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_use_cases_api_backends_usecases_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/cluster": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_cluster_api_cluster_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["stream_events_api_events_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/explain": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["explain_routing_api_explain_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/files": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_files_api_files_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/files/{sha256}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put: operations["send_file_api_files__sha256__put"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/files/collect": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["collect_files_api_files_collect_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/files/results/{node_id}/{run_id}/{sha256}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put: operations["send_quantization_file_api_files_results__node_id___run_id___sha256__put"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/fine-tuning/backends": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_fine_tuning_backends_api_fine_tuning_backends_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/fine-tuning/datasets": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_datasets_api_fine_tuning_datasets_get"];
        put?: never;
        post: operations["upload_dataset_api_fine_tuning_datasets_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/fine-tuning/datasets/{dataset_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        delete: operations["delete_dataset_api_fine_tuning_datasets__dataset_id__delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/fine-tuning/jobs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_fine_tuning_jobs_api_fine_tuning_jobs_get"];
        put?: never;
        post: operations["start_fine_tuning_api_fine_tuning_jobs_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/fine-tuning/jobs/{job_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_fine_tuning_api_fine_tuning_jobs__job_id__get"];
        put?: never;
        post?: never;
        delete: operations["delete_fine_tuning_api_fine_tuning_jobs__job_id__delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/fine-tuning/jobs/{job_id}/checkpoints": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_fine_tuning_checkpoints_api_fine_tuning_jobs__job_id__checkpoints_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/fine-tuning/jobs/{job_id}/curve": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["read_fine_tuning_curve_api_fine_tuning_jobs__job_id__curve_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/fine-tuning/jobs/{job_id}/download": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["download_fine_tuning_api_fine_tuning_jobs__job_id__download_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/fine-tuning/jobs/{job_id}/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["export_fine_tuning_api_fine_tuning_jobs__job_id__export_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/fine-tuning/jobs/{job_id}/progress": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["stream_fine_tuning_api_fine_tuning_jobs__job_id__progress_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/fine-tuning/jobs/{job_id}/stop": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["stop_fine_tuning_api_fine_tuning_jobs__job_id__stop_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/fleet": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["export_fleet_api_fleet_get"];
        put?: never;
        post: operations["apply_fleet_api_fleet_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/history": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_cluster_history_api_history_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/join": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_join_commands_api_join_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/keys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_keys_api_keys_get"];
        put?: never;
        post: operations["create_key_api_keys_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/keys/{key_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_key_api_keys__key_id__get"];
        put?: never;
        post?: never;
        delete: operations["revoke_key_api_keys__key_id__delete"];
        options?: never;
        head?: never;
        patch: operations["change_key_api_keys__key_id__patch"];
        trace?: never;
    };
    "/api/keys/{key_id}/rotate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["rotate_key_api_keys__key_id__rotate_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/live": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_live_api_live_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/mcp/servers": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_mcp_servers_api_mcp_servers_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/mcp/servers/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_mcp_server_api_mcp_servers__name__get"];
        put: operations["put_mcp_server_api_mcp_servers__name__put"];
        post?: never;
        delete: operations["delete_mcp_server_api_mcp_servers__name__delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/me": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_caller_api_me_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/me/usage": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_own_usage_api_me_usage_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/models": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_gallery_models_api_models_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/models/{name}/load": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["load_model_api_models__name__load_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/models/{name}/load-status": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_load_status_api_models__name__load_status_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/models/{name}/unload": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["unload_model_api_models__name__unload_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/models/capabilities": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_capabilities_api_models_capabilities_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/models/config-json/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_model_config_api_models_config_json__name__get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch: operations["patch_model_for_localai_api_models_config_json__name__patch"];
        trace?: never;
    };
    "/api/models/config/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_model_api_models_config__name__get"];
        put: operations["put_model_api_models_config__name__put"];
        post?: never;
        delete: operations["delete_model_api_models_config__name__delete"];
        options?: never;
        head?: never;
        patch: operations["patch_model_api_models_config__name__patch"];
        trace?: never;
    };
    "/api/models/configs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_models_api_models_configs_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/models/delete/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["delete_model_as_operation_api_models_delete__name__post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/models/diff/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["compare_revisions_api_models_diff__name__get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/models/estimate/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["estimate_model_api_models_estimate__name__get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/models/galleries": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["model_galleries_api_models_galleries_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/models/galleries/refresh": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["refresh_model_galleries_api_models_galleries_refresh_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/models/install/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["install_model_api_models_install__name__post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/models/job/{uid}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_model_job_api_models_job__uid__get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/models/rename": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["rename_models_api_models_rename_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/models/revisions/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_revisions_api_models_revisions__name__get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/models/rollback/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["roll_back_model_api_models_rollback__name__post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/models/variants/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_variants_api_models_variants__name__get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/nodes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_nodes_api_nodes_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/nodes/{node}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_node_api_nodes__node__get"];
        put?: never;
        post?: never;
        delete: operations["remove_node_api_nodes__node__delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/nodes/{node}/approve": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["approve_node_api_nodes__node__approve_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/nodes/{node}/approve-labels": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["approve_labels_api_nodes__node__approve_labels_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/nodes/{node}/backend-logs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_logs_api_nodes__node__backend_logs_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/nodes/{node}/backend-logs/{key}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["read_log_api_nodes__node__backend_logs__key__get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/nodes/{node}/backend-logs/{key}/download": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["download_log_api_nodes__node__backend_logs__key__download_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/nodes/{node}/backend-logs/{key}/stream": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["follow_log_api_nodes__node__backend_logs__key__stream_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/nodes/{node}/backends": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_node_backends_api_nodes__node__backends_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/nodes/{node}/backends/collect": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["collect_node_garbage_api_nodes__node__backends_collect_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/nodes/{node}/backends/delete": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["delete_on_node_api_nodes__node__backends_delete_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/nodes/{node}/backends/install": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["install_on_node_api_nodes__node__backends_install_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/nodes/{node}/backends/reinstall": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["reinstall_on_node_api_nodes__node__backends_reinstall_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/nodes/{node}/backends/rollback": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["roll_back_on_node_api_nodes__node__backends_rollback_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/nodes/{node}/backends/start": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["start_engine_api_nodes__node__backends_start_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/nodes/{node}/backends/stop": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["stop_engine_api_nodes__node__backends_stop_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/nodes/{node}/backends/upgrade": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["upgrade_on_node_api_nodes__node__backends_upgrade_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/nodes/{node}/drain": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["drain_node_api_nodes__node__drain_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/nodes/{node}/history": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_node_history_api_nodes__node__history_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/nodes/{node}/labels": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_labels_api_nodes__node__labels_get"];
        put: operations["replace_labels_api_nodes__node__labels_put"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch: operations["merge_labels_api_nodes__node__labels_patch"];
        trace?: never;
    };
    "/api/nodes/{node}/labels/{key}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        delete: operations["delete_label_api_nodes__node__labels__key__delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/nodes/{node}/max-replicas-per-model": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put: operations["set_slots_api_nodes__node__max_replicas_per_model_put"];
        post?: never;
        delete: operations["reset_slots_api_nodes__node__max_replicas_per_model_delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/nodes/{node}/models": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_node_models_api_nodes__node__models_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/nodes/{node}/models/delete": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["delete_model_on_node_api_nodes__node__models_delete_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/nodes/{node}/models/unload": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["unload_model_on_node_api_nodes__node__models_unload_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/nodes/{node}/probe": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["probe_node_api_nodes__node__probe_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/nodes/{node}/processes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_processes_api_nodes__node__processes_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/nodes/{node}/resume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["resume_node_api_nodes__node__resume_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/nodes/{node}/stop": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["stop_node_api_nodes__node__stop_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/nodes/{node}/vram-budget": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put: operations["set_budget_api_nodes__node__vram_budget_put"];
        post?: never;
        delete: operations["reset_budget_api_nodes__node__vram_budget_delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/nodes/models": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_loaded_replicas_api_nodes_models_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/nodes/scheduling": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_rules_for_localai_api_nodes_scheduling_get"];
        put?: never;
        post: operations["put_rule_for_localai_api_nodes_scheduling_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/nodes/scheduling/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_rule_for_localai_api_nodes_scheduling__name__get"];
        put?: never;
        post?: never;
        delete: operations["delete_rule_for_localai_api_nodes_scheduling__name__delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/operations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_operations_api_operations_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/operations/{operation_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_operation_api_operations__operation_id__get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/operations/{operation_id}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["cancel_operation_api_operations__operation_id__cancel_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/operations/{operation_id}/dismiss": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["dismiss_operation_api_operations__operation_id__dismiss_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/operations/{operation_id}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_operation_log_api_operations__operation_id__events_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/operations/{operation_id}/pause": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["pause_operation_api_operations__operation_id__pause_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/operations/{operation_id}/resume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["resume_operation_api_operations__operation_id__resume_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/operations/{operation_id}/retry": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["retry_operation_api_operations__operation_id__retry_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/operations/{operation_id}/undismiss": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["undismiss_operation_api_operations__operation_id__undismiss_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/operations/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["stream_operation_events_api_operations_events_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/operations/history": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_history_api_operations_history_get"];
        put?: never;
        post?: never;
        delete: operations["clear_history_api_operations_history_delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/plan": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["plan_load_api_plan_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/quantization/backends": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_quantization_backends_api_quantization_backends_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/quantization/jobs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_quantization_jobs_api_quantization_jobs_get"];
        put?: never;
        post: operations["start_quantization_api_quantization_jobs_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/quantization/jobs/{job_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_quantization_api_quantization_jobs__job_id__get"];
        put?: never;
        post?: never;
        delete: operations["delete_quantization_api_quantization_jobs__job_id__delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/quantization/jobs/{job_id}/download": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["download_quantization_api_quantization_jobs__job_id__download_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/quantization/jobs/{job_id}/import": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["import_quantization_api_quantization_jobs__job_id__import_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/quantization/jobs/{job_id}/progress": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["stream_quantization_api_quantization_jobs__job_id__progress_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/quantization/jobs/{job_id}/stop": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["stop_quantization_api_quantization_jobs__job_id__stop_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/quantization/plan": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["plan_quantization_api_quantization_plan_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/rules": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_rules_api_rules_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/rules/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_rule_api_rules__name__get"];
        put: operations["put_rule_api_rules__name__put"];
        post?: never;
        delete: operations["delete_rule_api_rules__name__delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/runs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_runs_api_runs_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/runs/{run_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_run_api_runs__run_id__get"];
        put?: never;
        post?: never;
        delete: operations["delete_run_api_runs__run_id__delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/runs/{run_id}/artifacts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_run_artifacts_api_runs__run_id__artifacts_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/runs/{run_id}/artifacts/{artifact_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["read_run_artifact_api_runs__run_id__artifacts__artifact_id__get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/runs/{run_id}/calls/{call_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["decide_call_api_runs__run_id__calls__call_id__post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/runs/{run_id}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["cancel_run_api_runs__run_id__cancel_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/runs/{run_id}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["stream_trace_api_runs__run_id__events_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/runs/{run_id}/trace": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_trace_api_runs__run_id__trace_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/secrets": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_secrets_api_secrets_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/secrets/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put: operations["put_secret_api_secrets__name__put"];
        post?: never;
        delete: operations["delete_secret_api_secrets__name__delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/session": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_session_api_session_get"];
        put?: never;
        post: operations["log_in_api_session_post"];
        delete: operations["log_out_api_session_delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/session/oidc": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["begin_provider_login_api_session_oidc_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/session/oidc/callback": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["finish_provider_login_api_session_oidc_callback_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/session/ways": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_login_methods_api_session_ways_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/settings": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_settings_api_settings_get"];
        put?: never;
        post: operations["change_settings_api_settings_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/stream": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["stream_everything_api_stream_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/tokens": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_tokens_api_tokens_get"];
        put?: never;
        post: operations["create_token_api_tokens_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/tokens/{token_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        delete: operations["revoke_token_api_tokens__token_id__delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/usage": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_usage_api_usage_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/users": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_users_api_users_get"];
        put?: never;
        post: operations["create_user_api_users_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/users/{user_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_user_api_users__user_id__get"];
        put?: never;
        post?: never;
        delete: operations["delete_user_api_users__user_id__delete"];
        options?: never;
        head?: never;
        patch: operations["change_user_api_users__user_id__patch"];
        trace?: never;
    };
    "/backends": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_installed_backends_backends_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/models/toggle-pinned/{name}/{action}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put: operations["toggle_model_pinned_models_toggle_pinned__name___action__put"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/models/toggle-state/{name}/{action}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put: operations["toggle_model_state_models_toggle_state__name___action__put"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/batches": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_batches_v1_batches_get"];
        put?: never;
        post: operations["create_batch_v1_batches_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/batches/{batch_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_batch_v1_batches__batch_id__get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/batches/{batch_id}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["cancel_batch_v1_batches__batch_id__cancel_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/files": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_files_v1_files_get"];
        put?: never;
        post: operations["upload_file_v1_files_post"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/files/{file_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_file_v1_files__file_id__get"];
        put?: never;
        post?: never;
        delete: operations["delete_file_v1_files__file_id__delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/files/{file_id}/content": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["read_file_content_v1_files__file_id__content_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/mcp/servers/{model}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_model_servers_v1_mcp_servers__model__get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /**
         * AgentBudgetsIn
         * @description Limits of one turn of an LLM agent, such as steps and seconds; part of the body that saves the agent.
         */
        AgentBudgetsIn: {
            /**
             * Tokens
             * @description Tokens, read and written.
             */
            tokens?: number | null;
            /**
             * Tool Calls
             * @description Calls of tools.
             */
            tool_calls?: number | null;
            /**
             * Wall
             * @description How long a turn may take. Empty: the setting `run_timeout`, else 5m.
             * @default
             */
            wall: string;
        };
        /**
         * AgentConfigOut
         * @description Response with one LLM agent and its whole configuration, such as that of `GET /api/agents/{name}`.
         */
        AgentConfigOut: {
            /**
             * Active
             * @description Whether it is not paused.
             * @default true
             */
            active: boolean;
            /**
             * Config
             * @description As in AgentIn. Secrets are references.
             */
            config: {
                [key: string]: unknown;
            };
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /**
             * Description
             * @default
             */
            description: string;
            /** Id */
            id: string;
            /**
             * Is Own
             * @default true
             */
            is_own: boolean;
            /**
             * Last Run At
             * @description When it last ran by itself.
             */
            last_run_at?: string | null;
            /**
             * Model
             * @default
             */
            model: string;
            /** Name */
            name: string;
            /**
             * Next Run At
             * @description When it runs next by itself.
             */
            next_run_at?: string | null;
            /**
             * Owner
             * @description user:… or key:…
             */
            owner: string;
            /**
             * Owner Name
             * @default
             */
            owner_name: string;
            /**
             * Revision
             * @default 1
             */
            revision: number;
            /**
             * Shared
             * @default false
             */
            shared: boolean;
            /**
             * Standalone Job
             * @default false
             */
            standalone_job: boolean;
            /**
             * Status
             * @description active or paused.
             */
            status: string;
            /**
             * Updated At
             * Format: date-time
             */
            updated_at: string;
            /**
             * Warnings
             * @description After a change only: what keeps the agent from answering, and which fields were ignored.
             */
            warnings?: string[];
        };
        /**
         * AgentFieldOut
         * @description One input field of the form in which the web page edits an LLM agent.
         */
        AgentFieldOut: {
            /** Default */
            default?: unknown;
            /**
             * Description
             * @default
             */
            description: string;
            /** Maximum */
            maximum?: number | null;
            /** Minimum */
            minimum?: number | null;
            /** Name */
            name: string;
            /** Options */
            options?: unknown[];
            /**
             * Required
             * @default false
             */
            required: boolean;
            /** Section */
            section: string;
            /** Type */
            type: string;
        };
        /**
         * AgentImportOut
         * @description Response of `POST /api/agents/import`: the LLM agent that was made of the imported configuration.
         */
        AgentImportOut: {
            /**
             * Active
             * @description Whether it is not paused.
             * @default true
             */
            active: boolean;
            /**
             * Config
             * @description As in AgentIn. Secrets are references.
             */
            config: {
                [key: string]: unknown;
            };
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /**
             * Description
             * @default
             */
            description: string;
            /** Id */
            id: string;
            /**
             * Ignored
             * @description Fields of the document that have no effect here.
             */
            ignored?: string[];
            /**
             * Is Own
             * @default true
             */
            is_own: boolean;
            /**
             * Last Run At
             * @description When it last ran by itself.
             */
            last_run_at?: string | null;
            /**
             * Missing Secrets
             * @description Secrets that the agent refers to and that its owner has not stored.
             */
            missing_secrets?: string[];
            /**
             * Model
             * @default
             */
            model: string;
            /** Name */
            name: string;
            /**
             * Next Run At
             * @description When it runs next by itself.
             */
            next_run_at?: string | null;
            /**
             * Owner
             * @description user:… or key:…
             */
            owner: string;
            /**
             * Owner Name
             * @default
             */
            owner_name: string;
            /**
             * Revision
             * @default 1
             */
            revision: number;
            /**
             * Shared
             * @default false
             */
            shared: boolean;
            /**
             * Standalone Job
             * @default false
             */
            standalone_job: boolean;
            /**
             * Status
             * @description active or paused.
             */
            status: string;
            /**
             * Updated At
             * Format: date-time
             */
            updated_at: string;
            /**
             * Warnings
             * @description After a change only: what keeps the agent from answering, and which fields were ignored.
             */
            warnings?: string[];
        };
        /**
         * AgentIn
         * @description Body that creates or replaces an LLM agent. A name that differs from the present one renames the agent.
         *
         *     Fields of LocalAI that have no effect here are left out, and named in the warnings of the response.
         */
        AgentIn: {
            /**
             * Agents
             * @description Names of agents that this one may ask as tools.
             */
            agents?: string[];
            /**
             * Auto Compaction Threshold
             * @description Tokens of history above which earlier messages are summarised.
             * @default 4096
             */
            auto_compaction_threshold: number;
            /** @description Limits of one turn. */
            budgets?: components["schemas"]["AgentBudgetsIn"];
            /**
             * Cancel Previous On New Message
             * @description A new message cancels the turn of its thread that runs; otherwise it waits.
             * @default true
             */
            cancel_previous_on_new_message: boolean;
            /**
             * Collection
             * @description A collection of the person who talks to the agent. Empty: the one with the name of the agent.
             * @default
             */
            collection: string;
            /**
             * Conversation Storage Mode
             * @description What is kept of a turn: the message, the message and the answer, or the conversation in one piece.
             * @default user_only
             * @enum {string}
             */
            conversation_storage_mode: "user_only" | "user_and_assistant" | "whole_conversation";
            /**
             * Description
             * @description What the agent is for; other agents read it before they ask.
             * @default
             */
            description: string;
            /**
             * Enable Auto Compaction
             * @description Summarise earlier messages that are too long.
             * @default true
             */
            enable_auto_compaction: boolean;
            /**
             * Enable Kb
             * @description Answer from the documents of a collection.
             * @default false
             */
            enable_kb: boolean;
            /**
             * Enable Skills
             * @description Turns are offered skills: instructions for certain tasks.
             * @default false
             */
            enable_skills: boolean;
            /**
             * Inner Monologue Template
             * @description What it is given then; `{{ goal }}` stands for the goal. Empty: a default.
             * @default
             */
            inner_monologue_template: string;
            /**
             * Kb Mode
             * @description auto_search: each message is searched for; tools: the model searches, and adds memories; both.
             * @default auto_search
             * @enum {string}
             */
            kb_mode: "auto_search" | "tools" | "both";
            /**
             * Kb Results
             * @description Results of one search.
             * @default 5
             */
            kb_results: number;
            /**
             * Labels
             * @description Labels that a node needs to run this agent.
             */
            labels?: {
                [key: string]: string;
            };
            /**
             * Long Term Memory
             * @description Keep messages in the collection.
             * @default false
             */
            long_term_memory: boolean;
            /**
             * Loop Detection
             * @description The same call so often in a row ends the turn with an answer. 0: never.
             * @default 5
             */
            loop_detection: number;
            /**
             * Max Attempts
             * @description How often an answer that cannot be used is requested again.
             * @default 2
             */
            max_attempts: number;
            /**
             * Max Iterations
             * @description Calls of the model in one turn.
             * @default 10
             */
            max_iterations: number;
            /**
             * Max Tokens
             * @description The longest answer of one call of the model.
             */
            max_tokens?: number | null;
            /**
             * Mcp Servers
             * @description MCP servers at addresses.
             */
            mcp_servers?: components["schemas"]["McpServerIn"][];
            /**
             * Mcp Stdio Servers
             * @description Names of MCP servers that an admin has declared.
             */
            mcp_stdio_servers?: string[];
            /**
             * Model
             * @description The model that answers.
             * @default
             */
            model: string;
            /**
             * Name
             * @description Unique among your agents. Without : / \ and ..
             */
            name: string;
            /**
             * Periodic Runs
             * @description How often it runs by itself.
             * @default 10m
             */
            periodic_runs: string;
            /**
             * Permanent Goal
             * @description The goal of an agent that runs by itself.
             * @default
             */
            permanent_goal: string;
            /**
             * Selected Skills
             * @description Names of the skills to offer. Empty: all that the agent's owner may use.
             */
            selected_skills?: string[];
            /**
             * Shared
             * @description Every user may talk to it. Set by admins.
             * @default false
             */
            shared: boolean;
            /**
             * Skills Mode
             * @description tools: names and descriptions stand in the prompt, and the model reads skills with request_skill; prompt: all of each stands in the prompt; both: that, and request_skill for their files.
             * @default tools
             * @enum {string}
             */
            skills_mode: "tools" | "prompt" | "both";
            /**
             * Skills Prompt
             * @description Stands before the skills in the prompt. Empty: a default.
             * @default
             */
            skills_prompt: string;
            /**
             * Standalone Job
             * @description The agent runs by itself, towards its goal.
             * @default false
             */
            standalone_job: boolean;
            /**
             * Strip Thinking Tags
             * @description Remove `<think>` and `<thinking>` from answers.
             * @default true
             */
            strip_thinking_tags: boolean;
            /**
             * Summary Long Term Memory
             * @description Keep a summary of each turn instead.
             * @default false
             */
            summary_long_term_memory: boolean;
            /**
             * System Prompt
             * @description Instructions. Empty: a helpful assistant.
             * @default
             */
            system_prompt: string;
            /**
             * Temperature
             * @description Unset: the model's own.
             */
            temperature?: number | null;
            /**
             * Tool Choice
             * @description required: every turn begins with the call of a tool; auto: the model decides.
             * @default auto
             * @enum {string}
             */
            tool_choice: "auto" | "required";
            /**
             * Tool Mode
             * @description native: the model's own tool calls; guided: forced by a schema; auto: whichever the model takes.
             * @default auto
             * @enum {string}
             */
            tool_mode: "auto" | "native" | "guided";
            /**
             * Tool Rules
             * @description What happens when a tool is called, by name or pattern (`files__*`): auto, ask a person, or deny. The first that matches counts; without one: auto.
             */
            tool_rules?: {
                [key: string]: "auto" | "ask" | "deny";
            };
        };
        /**
         * AgentListOut
         * @description Response of `GET /api/agents`: the LLM agents that the caller may use, first their own, then shared ones.
         *
         *     `agents`, `agentCount`, `statuses` and `user_groups` are LocalAI's, whose page reads names where Corral has `items`.
         */
        AgentListOut: {
            /**
             * Agentcount
             * @description How many names there are.
             * @default 0
             */
            agentCount: number;
            /**
             * Agents
             * @description The names alone, each once; without agents that only `all_users` shows.
             */
            agents?: string[];
            /** Items */
            items: components["schemas"]["AgentOut"][];
            /**
             * Statuses
             * @description Whether the agent of that name is active, by name.
             */
            statuses?: {
                [key: string]: boolean;
            };
            /**
             * User Groups
             * @description With `all_users`: agents of others, by what `user_id` of other calls takes.
             */
            user_groups?: {
                [key: string]: components["schemas"]["UserAgentsOut"];
            } | null;
        };
        /**
         * AgentMessageIn
         * @description Body of `POST /api/agents/{name}/chat`: a message of a person to an LLM agent, which starts a turn.
         */
        AgentMessageIn: {
            /**
             * History
             * @description Earlier messages with which a new thread begins, as LocalAI's page sends them.
             */
            history?: components["schemas"]["EarlierMessageIn"][];
            /** Message */
            message: string;
            /**
             * Thread Id
             * @description Absent: a new thread.
             */
            thread_id?: string | null;
        };
        /**
         * AgentMessageOut
         * @description Response of `POST /api/agents/{name}/chat`: the id of the accepted message.
         *
         *     The answer of the LLM agent comes with its event stream, and with the run.
         */
        AgentMessageOut: {
            /**
             * Message Id
             * @description The id of the message in the stream; the answer's is `<message_id>-agent`.
             */
            message_id: string;
            /** Run Id */
            run_id: string;
            /**
             * Status
             * @default message_received
             */
            status: string;
            /** Thread Id */
            thread_id: string;
        };
        /**
         * AgentMetadataOut
         * @description Response of `GET /api/agents/config/metadata`: the form that edits an LLM agent, generated from its schema.
         *
         *     Fields whose names begin with a capital, and `distributed`, are those that LocalAI's own page reads.
         */
        AgentMetadataOut: {
            /**
             * Actions
             * @description Always empty.
             */
            Actions?: unknown[];
            /**
             * Connectors
             * @description Always empty.
             */
            Connectors?: unknown[];
            /**
             * Distributed
             * @description LocalAI's page leaves out what only one machine can do.
             * @default true
             */
            distributed: boolean;
            /**
             * Dynamicprompts
             * @description Always empty.
             */
            DynamicPrompts?: unknown[];
            /** Fields */
            fields: components["schemas"]["AgentFieldOut"][];
            /**
             * Fields
             * @description The same fields for LocalAI's page.
             */
            Fields: components["schemas"]["FormFieldOut"][];
            /**
             * Filters
             * @description Always empty.
             */
            Filters?: unknown[];
            /** Json Schema */
            json_schema: {
                [key: string]: unknown;
            };
            /** Sections */
            sections: string[];
        };
        /**
         * AgentOut
         * @description An LLM agent without its configuration, as `GET /api/agents` lists it.
         */
        AgentOut: {
            /**
             * Active
             * @description Whether it is not paused.
             * @default true
             */
            active: boolean;
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /**
             * Description
             * @default
             */
            description: string;
            /** Id */
            id: string;
            /**
             * Is Own
             * @default true
             */
            is_own: boolean;
            /**
             * Last Run At
             * @description When it last ran by itself.
             */
            last_run_at?: string | null;
            /**
             * Model
             * @default
             */
            model: string;
            /** Name */
            name: string;
            /**
             * Next Run At
             * @description When it runs next by itself.
             */
            next_run_at?: string | null;
            /**
             * Owner
             * @description user:… or key:…
             */
            owner: string;
            /**
             * Owner Name
             * @default
             */
            owner_name: string;
            /**
             * Revision
             * @default 1
             */
            revision: number;
            /**
             * Shared
             * @default false
             */
            shared: boolean;
            /**
             * Standalone Job
             * @default false
             */
            standalone_job: boolean;
            /**
             * Status
             * @description active or paused.
             */
            status: string;
            /**
             * Updated At
             * Format: date-time
             */
            updated_at: string;
        };
        /**
         * AgentStatusOut
         * @description Response of `GET /api/agents/{name}/status`: whether the LLM agent is active, and its newest runs.
         */
        AgentStatusOut: {
            /**
             * History
             * @description The newest runs of the caller with this agent.
             */
            history: components["schemas"]["RunOut"][];
            /**
             * History
             * @description The same runs as texts, for LocalAI's page.
             */
            History?: string[];
            /** Is Running */
            is_running: boolean;
            /** Last Run At */
            last_run_at?: string | null;
            /** Name */
            name: string;
            /**
             * Name
             * @description The same as `name`.
             * @default
             */
            Name: string;
            /** Next Run At */
            next_run_at?: string | null;
            /** Open Runs */
            open_runs: number;
            /** Status */
            status: string;
            /** Threads */
            threads: number;
        };
        /**
         * AppliedUpgradesOut
         * @description Response of `POST /api/backends/upgrades/apply`: one upgrade operation for each backend, and the refusals.
         */
        AppliedUpgradesOut: {
            /** Operations */
            operations: components["schemas"]["BackendOperationOut"][];
            /** Refused */
            refused?: components["schemas"]["RefusedUpgradeOut"][];
        };
        /**
         * ApplyBackendIn
         * @description Body of `POST /backends/apply`, in LocalAI's form: installs a backend of a gallery.
         */
        ApplyBackendIn: {
            /**
             * Force
             * @description Download and install again where it is installed already.
             * @default false
             */
            force: boolean;
            /**
             * Id
             * @description A name or gallery@name.
             */
            id: string;
            /**
             * Ignore Capability
             * @description Also install on nodes whose hardware the build is not for.
             * @default false
             */
            ignore_capability: boolean;
            /**
             * Nodes
             * @description Names or ids of nodes. Absent: all suitable nodes.
             */
            nodes?: string[] | null;
            strategy?: components["schemas"]["StrategyIn"];
            /**
             * Version
             * @description Version; empty: the newest.
             * @default
             */
            version: string;
        };
        /**
         * ApplyModelIn
         * @description Body of `POST /models/apply`, in LocalAI's form: installs a model of a gallery.
         */
        ApplyModelIn: {
            /**
             * Config Url
             * @default
             */
            config_url: string;
            /** Files */
            files?: {
                [key: string]: unknown;
            }[];
            /**
             * Id
             * @description A name or gallery@name.
             * @default
             */
            id: string;
            /**
             * Name
             * @default
             */
            name: string;
            /** Overrides */
            overrides?: {
                [key: string]: unknown;
            };
            /**
             * Url
             * @default
             */
            url: string;
            /**
             * Variant
             * @default
             */
            variant: string;
        };
        /**
         * ApprovalDecision
         * @description A person's decision whether a run may make one tool call, on its way to the run's worker.
         */
        ApprovalDecision: {
            /** Approved */
            approved: boolean;
            /**
             * Reason
             * @default
             */
            reason: string;
        };
        /**
         * ApprovedNodeOut
         * @description Response of `POST /api/nodes/{node}/approve`: the node, and the labels that count from now on.
         */
        ApprovedNodeOut: {
            /**
             * Address Note
             * @default
             */
            address_note: string;
            /** Api Token */
            api_token?: string | null;
            /** Id */
            id: string;
            /**
             * Labels
             * @description Labels of the worker that are approved now.
             */
            labels?: {
                [key: string]: string;
            };
            /** Message */
            message: string;
            /** Name */
            name: string;
            /** Node Type */
            node_type: string;
            /** Status */
            status: string;
        };
        /**
         * ApproveNodeIn
         * @description Body of `POST /api/nodes/{node}/approve`: the proposed labels that the admin saw; only these are approved.
         */
        ApproveNodeIn: {
            /**
             * Labels
             * @description Only these pairs of `proposed_labels` are approved; absent: all of them.
             */
            labels?: {
                [key: string]: string;
            } | null;
        };
        /**
         * AskAgentIn
         * @description Body of `POST /api/node/{node_id}/runs/{run_id}/agents/{name}`: a run's message to another LLM agent.
         *
         *     The response names the run that answers.
         */
        AskAgentIn: {
            /** Boot Id */
            boot_id?: string | null;
            /**
             * Call Id
             * @default
             */
            call_id: string;
            /**
             * Job Id
             * @default
             */
            job_id: string;
            /**
             * Message
             * @default
             */
            message: string;
        };
        /**
         * AskAgentOut
         * @description Response about the run that another run has started by asking an LLM agent.
         *
         *     `content` is the agent's answer once that run has completed.
         */
        AskAgentOut: {
            /**
             * Content
             * @default
             */
            content: string;
            /**
             * Error Text
             * @default
             */
            error_text: string;
            /** Run Id */
            run_id: string;
            /** State */
            state: string;
        };
        /**
         * AssignmentOut
         * @description An item of `GET /api/backend-intents`: a change of a backend that a node has not made yet.
         */
        AssignmentOut: {
            /**
             * Attempts
             * @default 0
             */
            attempts: number;
            /** Backend */
            backend: string;
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /**
             * Desired
             * @description present, replaced, absent or rolled_back
             */
            desired: string;
            /** Error */
            error?: string | null;
            /** Error Code */
            error_code?: string | null;
            /** Generation */
            generation: number;
            /** Next Retry At */
            next_retry_at?: string | null;
            /** Node Id */
            node_id: string;
            /** Node Name */
            node_name: string;
            /** Operation Id */
            operation_id: string;
            /**
             * State
             * @description open; dead once it has failed too often and is not tried again
             */
            state: string;
            /**
             * Version
             * @default
             */
            version: string;
        };
        /**
         * AuditEntryOut
         * @description One entry of the audit log in `GET /api/audit`: who did what to which thing, and when.
         */
        AuditEntryOut: {
            /** Action */
            action: string;
            /** Actor */
            actor: string;
            /**
             * At
             * Format: date-time
             */
            at: string;
            /** Detail */
            detail: string;
            /** Id */
            id: number;
            /** Target */
            target: string;
        };
        /**
         * AuditOut
         * @description Response of `GET /api/audit`: a page of the audit log.
         */
        AuditOut: {
            /**
             * Entries
             * @description Entries, newest first.
             */
            entries: components["schemas"]["AuditEntryOut"][];
            /**
             * Next
             * @description Send this as `before` for the next page; null: this is the last page.
             */
            next: number | null;
        };
        /**
         * BackendChangeIn
         * @description Body that reinstalls or upgrades a backend: on which nodes, to which version, and whether hardware is ignored.
         */
        BackendChangeIn: {
            /**
             * Ignore Capability
             * @description Also install on nodes whose hardware the build is not for.
             * @default false
             */
            ignore_capability: boolean;
            /**
             * Nodes
             * @description Names or ids of nodes. Absent: all suitable nodes.
             */
            nodes?: string[] | null;
            strategy?: components["schemas"]["StrategyIn"];
            /**
             * Version
             * @description Version; empty: the newest.
             * @default
             */
            version: string;
        };
        /**
         * BackendGarbageItemOut
         * @description One file or folder on a node's disk that no installed backend uses.
         */
        BackendGarbageItemOut: {
            /**
             * Name
             * @description Path below the node's folder of backends.
             */
            name: string;
            /** Size Bytes */
            size_bytes: number;
        };
        /**
         * BackendGarbageOut
         * @description Response of `POST /api/nodes/{node}/backends/collect`: unused backend files that were removed, or would be.
         */
        BackendGarbageOut: {
            /**
             * Count
             * @description Total number of items.
             */
            count: number;
            /**
             * Dry Run
             * @default false
             */
            dry_run: boolean;
            /** Freed Bytes */
            freed_bytes: number;
            /**
             * Items
             * @description The largest items.
             */
            items: components["schemas"]["BackendGarbageItemOut"][];
            /** Message */
            message: string;
        };
        /**
         * BackendInstallationOut
         * @description One installation of a backend on one node, as the node's worker reported it.
         */
        BackendInstallationOut: {
            /**
             * Digest
             * @default
             */
            digest: string;
            /**
             * Drifts
             * @description The version differs from that of most nodes.
             * @default false
             */
            drifts: boolean;
            /**
             * Has Upgrade
             * @description There is an upgrade for this node.
             * @default false
             */
            has_upgrade: boolean;
            /** Installed At */
            installed_at?: string | null;
            /** Node Id */
            node_id: string;
            /** Node Name */
            node_name: string;
            /** Node Status */
            node_status: string;
            /**
             * Previous Version
             * @default
             */
            previous_version: string;
            /** Size Bytes */
            size_bytes?: number | null;
            /**
             * Upgrade To
             * @description The version that this node would get; empty for images.
             * @default
             */
            upgrade_to: string;
            /**
             * Uri
             * @default
             */
            uri: string;
            /**
             * Version
             * @default
             */
            version: string;
        };
        /**
         * BackendOperationOut
         * @description Response to a request for a change of an engine backend: the operation that makes it, with where to follow it.
         */
        BackendOperationOut: {
            /**
             * Deduplicated
             * @description True: the same change was requested already, and this is its operation.
             */
            deduplicated: boolean;
            /** Id */
            id: string;
            /**
             * Jobid
             * @description The same as `id`.
             */
            jobID: string;
            /** Message */
            message: string;
            /** State */
            state: string;
            /**
             * Status Url
             * @description The same as `statusUrl`.
             */
            status_url: string;
            /** Statusurl */
            statusUrl: string;
            /**
             * Uuid
             * @description The same as `id`.
             */
            uuid: string;
        };
        /**
         * BackendPlanOut
         * @description Response to a dry run of an engine backend operation: what it would do on which node. Nothing was changed.
         */
        BackendPlanOut: {
            /** Backend */
            backend: string;
            /**
             * Fetch Bytes
             * @description Download size of all nodes; null if one is not known.
             */
            fetch_bytes?: number | null;
            /** Kind */
            kind: string;
            /** Nodes */
            nodes: components["schemas"]["PlannedNodeOut"][];
            /**
             * Plan
             * @default true
             * @constant
             */
            plan: true;
            /** Skipped */
            skipped?: components["schemas"]["SkippedNodeOut"][];
        };
        /**
         * BackendsReportIn
         * @description Body of `POST /api/node/{node_id}/backends`: a worker's report of all backends that its node has installed.
         *
         *     A backend that is not listed is not installed.
         */
        BackendsReportIn: {
            /** Backends */
            backends: components["schemas"]["InstalledBackendIn"][];
            /** Boot Id */
            boot_id: string;
            /**
             * Removed
             * @description Backends that were removed, with the generation of the removal.
             */
            removed?: {
                [key: string]: number;
            };
        };
        /**
         * BackendUpgradeOut
         * @description An item of `GET /api/backends/upgrades`: a backend with an upgrade, and the nodes that are behind or differ.
         */
        BackendUpgradeOut: {
            /**
             * Available Digest
             * @default
             */
            available_digest: string;
            /**
             * Available Version
             * @default
             */
            available_version: string;
            /** Backend Name */
            backend_name: string;
            /**
             * Installed Digest
             * @default
             */
            installed_digest: string;
            /**
             * Installed Version
             * @description The version that most nodes have.
             * @default
             */
            installed_version: string;
            /** Node Drift */
            node_drift?: components["schemas"]["NodeDriftOut"][];
            /**
             * Nodes
             * @description Nodes with an upgrade. Empty: versions differ between nodes, but no gallery has a newer one.
             */
            nodes?: components["schemas"]["NodeUpgradeOut"][];
            /**
             * Summary
             * @description Which version is the newest, and which nodes have another one.
             * @default
             */
            summary: string;
        };
        /**
         * BatchAnswersIn
         * @description Body of `POST /api/node/{node_id}/runs/{run_id}/batch/answers`.
         *
         *     The worker that executes a batch delivers lines for the output files, and the position in the input behind them.
         */
        BatchAnswersIn: {
            /** Boot Id */
            boot_id?: string | null;
            /**
             * Completed
             * @default 0
             */
            completed: number;
            /**
             * Errors
             * @default
             */
            errors: string;
            /**
             * Failed
             * @default 0
             */
            failed: number;
            /**
             * From Byte
             * @default 0
             */
            from_byte: number;
            /**
             * Job Id
             * @default
             */
            job_id: string;
            /**
             * Output
             * @default
             */
            output: string;
            /**
             * To Byte
             * @default 0
             */
            to_byte: number;
            /**
             * To Line
             * @default 0
             */
            to_line: number;
        };
        /**
         * BatchCountsOut
         * @description Counts of a batch: how many inference requests it has, and how many completed or failed.
         */
        BatchCountsOut: {
            /** Completed */
            completed: number;
            /** Failed */
            failed: number;
            /** Total */
            total: number;
        };
        /**
         * BatchCursorOut
         * @description Response that tells the worker of a batch up to which byte of the input file the answers are stored.
         */
        BatchCursorOut: {
            /** Next Byte */
            next_byte: number;
            /** Next Line */
            next_line: number;
        };
        /**
         * BatchErrorListOut
         * @description The errors for which a batch of inference requests has failed, in the form of OpenAI's API.
         */
        BatchErrorListOut: {
            /** Data */
            data: components["schemas"]["BatchErrorOut"][];
            /**
             * Object
             * @default list
             * @constant
             */
            object: "list";
        };
        /**
         * BatchErrorOut
         * @description One error of a batch of inference requests: in a line of its input file, or in the batch as a whole.
         */
        BatchErrorOut: {
            /** Code */
            code: string;
            /** Line */
            line?: number | null;
            /** Message */
            message: string;
            /** Param */
            param?: string | null;
        };
        /**
         * BatchIn
         * @description Body of `POST /v1/batches`: starts a batch, which answers all inference requests of an uploaded file.
         */
        BatchIn: {
            /**
             * Completion Window
             * @description How long the batch may take: 24h.
             * @default 24h
             */
            completion_window: string;
            /**
             * Endpoint
             * @description /v1/chat/completions, /v1/completions, /v1/embeddings or /v1/responses.
             */
            endpoint: string;
            /**
             * Input File Id
             * @description A file with the purpose `batch`.
             */
            input_file_id: string;
            /** Metadata */
            metadata?: {
                [key: string]: string;
            } | null;
        };
        /**
         * BatchInputOut
         * @description Response of `GET /api/node/{node_id}/runs/{run_id}/batch/input`: bytes of the batch's input, for its worker.
         */
        BatchInputOut: {
            /**
             * Content
             * @description In base64; empty at the end of the input.
             */
            content: string;
        };
        /**
         * BatchListOut
         * @description Response of `GET /v1/batches`: a page of batches of inference requests.
         */
        BatchListOut: {
            /** Data */
            data: components["schemas"]["BatchOut"][];
            /** First Id */
            first_id?: string | null;
            /**
             * Has More
             * @default false
             */
            has_more: boolean;
            /** Last Id */
            last_id?: string | null;
            /**
             * Object
             * @default list
             * @constant
             */
            object: "list";
        };
        /**
         * BatchOut
         * @description A batch of inference requests with its state, in the form of OpenAI's API. Times are seconds since 1970.
         */
        BatchOut: {
            /** Cancelled At */
            cancelled_at?: number | null;
            /** Cancelling At */
            cancelling_at?: number | null;
            /** Completed At */
            completed_at?: number | null;
            /** Completion Window */
            completion_window: string;
            /** Created At */
            created_at: number;
            /** Endpoint */
            endpoint: string;
            /** Error File Id */
            error_file_id?: string | null;
            errors?: components["schemas"]["BatchErrorListOut"] | null;
            /** Expired At */
            expired_at?: number | null;
            /** Expires At */
            expires_at?: number | null;
            /** Failed At */
            failed_at?: number | null;
            /** Finalizing At */
            finalizing_at?: number | null;
            /** Id */
            id: string;
            /** In Progress At */
            in_progress_at?: number | null;
            /** Input File Id */
            input_file_id: string;
            /** Metadata */
            metadata?: {
                [key: string]: string;
            } | null;
            /**
             * Object
             * @default batch
             * @constant
             */
            object: "batch";
            /** Output File Id */
            output_file_id?: string | null;
            request_counts: components["schemas"]["BatchCountsOut"];
            /**
             * Run Id
             * @description The run that answers the lines; `corral runs show` shows it.
             */
            run_id: string;
            /** Status */
            status: string;
        };
        /**
         * BatchValidationIn
         * @description Body of `POST /api/node/{node_id}/runs/{run_id}/batch/validation`.
         *
         *     The worker that executes a batch tells whether the lines of the input file are valid.
         */
        BatchValidationIn: {
            /** Boot Id */
            boot_id?: string | null;
            /** Errors */
            errors?: {
                [key: string]: unknown;
            }[];
            /**
             * Job Id
             * @default
             */
            job_id: string;
            /**
             * Total
             * @default 0
             */
            total: number;
        };
        /**
         * BuildOut
         * @description The build of a backend that an operation installs on one node, chosen for the node's hardware.
         */
        BuildOut: {
            /**
             * Gallery
             * @default
             */
            gallery: string;
            /**
             * Meta
             * @description The name that was requested, from which the build was chosen.
             * @default
             */
            meta: string;
            /**
             * Name
             * @description The concrete backend.
             */
            name: string;
            /**
             * Sha256
             * @default
             */
            sha256: string;
            /** Size Bytes */
            size_bytes?: number | null;
            /**
             * Source
             * @description pypi, url, oci, directory or bundled
             * @default
             */
            source: string;
            /**
             * Uri
             * @default
             */
            uri: string;
            /**
             * Version
             * @default
             */
            version: string;
        };
        /**
         * BusCredentialsIn
         * @description Body of `POST /api/node/{node_id}/credentials`: the public key for which a worker requests a NATS credential.
         */
        BusCredentialsIn: {
            /** Bus Public Key */
            bus_public_key: string;
        };
        /**
         * BusCredentialsOut
         * @description Response of `POST /api/node/{node_id}/credentials`: a worker's NATS credential, and the server's addresses.
         */
        BusCredentialsOut: {
            /** Nats Jwt */
            nats_jwt: string;
            /** Nats Jwt Expires In S */
            nats_jwt_expires_in_s: number;
            /** Nats Url */
            nats_url: string;
            /**
             * Ticket Key
             * @description The public key that tickets of other nodes are checked with.
             * @default
             */
            ticket_key: string;
        };
        /**
         * CallableAgentSpec
         * @description Another LLM agent that a run may ask as if that agent were a tool.
         */
        CallableAgentSpec: {
            /**
             * Description
             * @default
             */
            description: string;
            /** Name */
            name: string;
        };
        /**
         * CallDecisionIn
         * @description Body of `POST /api/runs/{run_id}/calls/{call_id}`: whether a person allows the run to make that tool call.
         */
        CallDecisionIn: {
            /** Approved */
            approved: boolean;
            /**
             * Reason
             * @description Passed on to the model if the call is refused.
             * @default
             */
            reason: string;
        };
        /**
         * CallerOut
         * @description Response of `GET /api/me`: who the caller is, and what the caller's key or session may do.
         */
        CallerOut: {
            /**
             * Key Id
             * @description Id of the API key; null: the caller has a session.
             */
            key_id: string | null;
            /** Limits */
            limits: components["schemas"]["LimitOut"][];
            /**
             * Models
             * @description Patterns of models that may be used; null: all models.
             */
            models: string[] | null;
            /** Name */
            name: string;
            /**
             * Node Id
             * @description The agent node that the key belongs to.
             */
            node_id: string | null;
            /**
             * Scope
             * @description admin: everything; operate: nodes, engines, models, operations; infer: inference only
             */
            scope: string;
            /** User Id */
            user_id: string | null;
        };
        /**
         * CatalogEntryOut
         * @description One backend that the galleries offer, with the nodes on which it is installed.
         */
        CatalogEntryOut: {
            /**
             * Alias
             * @default
             */
            alias: string;
            /**
             * Capabilities
             * @description Build for each kind of hardware; only of a meta backend.
             */
            capabilities?: {
                [key: string]: string;
            };
            /**
             * Description
             * @default
             */
            description: string;
            /** Gallery */
            gallery: string;
            /**
             * Icon
             * @default
             */
            icon: string;
            /** Id */
            id: string;
            /**
             * Installed
             * @description Whether it is installed on at least one node.
             */
            installed: boolean;
            /**
             * Isalias
             * @default false
             */
            isAlias: boolean;
            /**
             * Isdeletion
             * @default false
             */
            isDeletion: boolean;
            /**
             * Isdevelopment
             * @default false
             */
            isDevelopment: boolean;
            /** Ismeta */
            isMeta: boolean;
            /**
             * Isunverified
             * @description It has not been run on the machines that Corral is tested on.
             * @default false
             */
            isUnverified: boolean;
            /** Jobid */
            jobID?: string | null;
            /**
             * License
             * @default
             */
            license: string;
            /**
             * Metabackendfor
             * @description The meta backend that a build belongs to.
             */
            metaBackendFor?: string | null;
            /** Name */
            name: string;
            /** Nodes */
            nodes?: components["schemas"]["BackendInstallationOut"][];
            /**
             * Processing
             * @description An operation about it is running.
             * @default false
             */
            processing: boolean;
            /**
             * Runson
             * @description Capabilities of current nodes that can run it.
             */
            runsOn?: string[];
            /** Tags */
            tags?: string[];
            /** Urls */
            urls?: string[];
            /**
             * Version
             * @description The installed version, or the newest one.
             * @default
             */
            version: string;
            /**
             * Versions
             * @description Versions, newest first.
             */
            versions?: string[];
        };
        /**
         * CatalogPageOut
         * @description Response of `GET /api/backends`: a page of the backends that the galleries offer.
         */
        CatalogPageOut: {
            /** Alltags */
            allTags: string[];
            /** Availablebackends */
            availableBackends: number;
            /** Backends */
            backends: components["schemas"]["CatalogEntryOut"][];
            /** Currentpage */
            currentPage: number;
            /** Installedbackends */
            installedBackends: number;
            /**
             * Preferdevelopmentbackends
             * @default false
             */
            preferDevelopmentBackends: boolean;
            /**
             * Processingbackends
             * @description Id of the running operation by backend name.
             */
            processingBackends: {
                [key: string]: string;
            };
            /**
             * Systemcapability
             * @description Capabilities of the current nodes, separated by commas.
             */
            systemCapability: string;
            /**
             * Tasktypes
             * @description Kind of the running operation by backend name.
             */
            taskTypes: {
                [key: string]: string;
            };
            /** Totalpages */
            totalPages: number;
        };
        /**
         * ChatIn
         * @description Body of `POST /v1/chat/completions`, in OpenAI's form: messages for a model to answer.
         */
        ChatIn: {
            /** Messages */
            messages: {
                [key: string]: unknown;
            }[];
            /**
             * Model
             * @description The name of a model, or one of its aliases.
             */
            model: string;
            /**
             * Stream
             * @description Stream the response as server-sent events.
             * @default false
             */
            stream: boolean;
        } & {
            [key: string]: unknown;
        };
        /**
         * CheckpointIn
         * @description Body of `POST /api/node/{node_id}/runs/{run_id}/fine-tuning/checkpoint`: all files of a checkpoint were sent.
         */
        CheckpointIn: {
            /** Boot Id */
            boot_id?: string | null;
            /** Epoch */
            epoch?: number | null;
            /**
             * Job Id
             * @default
             */
            job_id: string;
            /** Loss */
            loss?: number | null;
            /**
             * Step
             * @default 0
             */
            step: number;
        };
        /**
         * CheckpointKeptOut
         * @description Response of `POST /api/node/{node_id}/runs/{run_id}/fine-tuning/checkpoint`: the checkpoints that are kept.
         */
        CheckpointKeptOut: {
            /** Steps */
            steps: number[];
        };
        /**
         * CheckpointListOut
         * @description Response of `GET /api/fine-tuning/jobs/{id}/checkpoints`: the checkpoints that are kept, newest first.
         */
        CheckpointListOut: {
            /** Checkpoints */
            checkpoints: components["schemas"]["CheckpointOut"][];
        };
        /**
         * CheckpointOut
         * @description A checkpoint of a fine-tuning: the state of the training behind one step.
         */
        CheckpointOut: {
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Epoch */
            epoch: number | null;
            /**
             * Is Inherited
             * @description True if the job began with it.
             */
            is_inherited: boolean;
            /** Loss */
            loss: number | null;
            /** Name */
            name: string;
            /**
             * Path
             * @description What resume_from_checkpoint takes: the job and the name.
             */
            path: string;
            /** Size Bytes */
            size_bytes: number;
            /** Step */
            step: number;
        };
        /**
         * ClearedHistoryOut
         * @description Response of `DELETE /api/operations/history`: the number of ended operations that were removed from it.
         */
        ClearedHistoryOut: {
            /**
             * Removed
             * @description Number of deleted records.
             */
            removed: number;
            /**
             * Success
             * @default true
             */
            success: boolean;
        };
        /**
         * CloneAgentIn
         * @description Body of `POST /api/agents/{name}/clone`: the name of the copy of the LLM agent.
         */
        CloneAgentIn: {
            /**
             * Name
             * @description Without one: the name with `-copy` behind it.
             * @default
             */
            name: string;
        };
        /**
         * ClusterNodeOut
         * @description A node in the overview of the cluster: only its name and status.
         */
        ClusterNodeOut: {
            /** Id */
            id: string;
            /** Name */
            name: string;
            /** Status */
            status: string;
            /** Status Reason */
            status_reason: string;
        };
        /**
         * ClusterOut
         * @description Response of `GET /api/cluster`: an overview of frontends, leader, nodes, PostgreSQL and NATS.
         */
        ClusterOut: {
            /** Answered By */
            answered_by: string;
            /**
             * Degraded
             * @description What does not work at present, as sentences.
             */
            degraded?: string[];
            /** Frontends */
            frontends: components["schemas"]["FrontendOut"][];
            leader: components["schemas"]["LeaderOut"];
            nats: components["schemas"]["DependencyOut"];
            /** Nodes */
            nodes: components["schemas"]["ClusterNodeOut"][];
            postgres: components["schemas"]["DependencyOut"];
            /** Version */
            version: string;
        };
        /**
         * CollectionEntryOut
         * @description One document of a collection, and how far it has been read.
         */
        CollectionEntryOut: {
            /** Chunks */
            chunks: number;
            /**
             * Is Source
             * @description Whether it is kept up to date with a source.
             * @default false
             */
            is_source: boolean;
            /**
             * Language
             * @description The language that its words are searched for in, once it is read.
             * @default
             */
            language: string;
            /**
             * Message
             * @description Why it failed, or what it waits for.
             * @default
             */
            message: string;
            /** Name */
            name: string;
            /**
             * Run Id
             * @description The run that reads it.
             */
            run_id?: string | null;
            /** Size Bytes */
            size_bytes: number;
            /**
             * State
             * @description queued, reading, ready or failed.
             */
            state: string;
            /**
             * Updated At
             * Format: date-time
             */
            updated_at: string;
        };
        /**
         * CollectionIn
         * @description Body of `POST /api/agents/collections`: the collection to create.
         */
        CollectionIn: {
            /**
             * Chunk Overlap
             * @description Characters that a chunk repeats of the one before.
             * @default 0
             */
            chunk_overlap: number;
            /**
             * Chunk Size
             * @description Characters of one chunk: 50 to 8,000.
             * @default 400
             */
            chunk_size: number;
            /**
             * Embedding Model
             * @description Empty: the setting `embedding_model`, else the only model that serves embeddings.
             * @default
             */
            embedding_model: string;
            /**
             * Language
             * @description By which words are searched for: auto (that of each document), simple (whole words), or a text search configuration of PostgreSQL such as english or german.
             * @default auto
             */
            language: string;
            /** Name */
            name: string;
        };
        /**
         * CollectionListOut
         * @description Response of `GET /api/agents/collections`: your collections; `collections` are the names alone, for LocalAI.
         */
        CollectionListOut: {
            /** Collections */
            collections: string[];
            /** Count */
            count: number;
            /** Items */
            items: components["schemas"]["CollectionOut"][];
        };
        /**
         * CollectionOut
         * @description A collection of documents: how its text is cut and embedded, and how much is in it.
         */
        CollectionOut: {
            /** Chunk Overlap */
            chunk_overlap: number;
            /** Chunk Size */
            chunk_size: number;
            /** Chunks */
            chunks: number;
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /**
             * Dimension
             * @description The length of the embeddings, once there are some.
             */
            dimension?: number | null;
            /** Embedding Model */
            embedding_model: string;
            /** Entries */
            entries: number;
            /**
             * Language
             * @default auto
             */
            language: string;
            /** Name */
            name: string;
            /**
             * Owner
             * @description user:… or key:…
             * @default
             */
            owner: string;
        };
        /**
         * CollectionSearchIn
         * @description Body of `POST /api/agents/collections/{name}/search`: what to search for, and how many results.
         */
        CollectionSearchIn: {
            /**
             * Max Results
             * @default 5
             */
            max_results: number;
            /** Query */
            query: string;
        };
        /**
         * CollectionSearchOut
         * @description Response of a search in a collection, best results first.
         */
        CollectionSearchOut: {
            /** Count */
            count: number;
            /** Results */
            results: components["schemas"]["FoundChunkOut"][];
        };
        /**
         * CollectionSourceIn
         * @description Body that adds a source to a collection.
         */
        CollectionSourceIn: {
            /**
             * Update Interval
             * @description Minutes, or a duration such as 1d.
             * @default 60
             */
            update_interval: number | string;
            /** Url */
            url: string;
        };
        /**
         * CollectionSourceListOut
         * @description Response with the sources of a collection.
         */
        CollectionSourceListOut: {
            /** Count */
            count: number;
            /** Sources */
            sources: components["schemas"]["CollectionSourceOut"][];
        };
        /**
         * CollectionSourceOut
         * @description An address that a collection is kept up to date with.
         */
        CollectionSourceOut: {
            /** Last Update */
            last_update?: string | null;
            /** Next Update */
            next_update?: string | null;
            /**
             * Problem
             * @description Why it could not be read the last time.
             * @default
             */
            problem: string;
            /**
             * Update Interval
             * @description Minutes.
             */
            update_interval: number;
            /** Url */
            url: string;
        };
        /**
         * CollectionSourceRefIn
         * @description Body that names a source of a collection.
         */
        CollectionSourceRefIn: {
            /** Url */
            url: string;
        };
        /**
         * CollectionUploadOut
         * @description Response of an upload to a collection: the entry, which a worker reads next.
         */
        CollectionUploadOut: {
            entry: components["schemas"]["CollectionEntryOut"];
            /** Filename */
            filename: string;
            /**
             * Status
             * @default ok
             */
            status: string;
        };
        /**
         * CompletionIn
         * @description Body of `POST /v1/completions`, in OpenAI's form: a prompt for a model to continue.
         */
        CompletionIn: {
            /**
             * Model
             * @description The name of a model, or one of its aliases.
             */
            model: string;
            /** Prompt */
            prompt: string | unknown[];
            /**
             * Stream
             * @description Stream the response as server-sent events.
             * @default false
             */
            stream: boolean;
        } & {
            [key: string]: unknown;
        };
        /**
         * CopyCheckOut
         * @description Response to a worker that reports damage: whether the frontend's copy of the model file is intact.
         */
        CopyCheckOut: {
            /**
             * Is Right
             * @description Whether its bytes are intact; null: they are being checked.
             */
            is_right: boolean | null;
        };
        /**
         * CreatedKeyOut
         * @description Response that creates or rotates an API key: the key with its secret, which is shown only this once.
         */
        CreatedKeyOut: {
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Created By */
            created_by: string;
            /** Expires At */
            expires_at: string | null;
            /** Id */
            id: string;
            /**
             * Key
             * @description The secret. It is not shown again.
             */
            key: string;
            /**
             * Last Used At
             * @description When it was last used, to about a minute; null: never.
             */
            last_used_at?: string | null;
            /**
             * Limits
             * @default []
             */
            limits: components["schemas"]["LimitOut"][];
            /**
             * Models
             * @description Patterns of models that it may use; null: all models.
             */
            models?: string[] | null;
            /** Name */
            name: string;
            /**
             * Node Id
             * @description The agent node that the key belongs to.
             */
            node_id?: string | null;
            /** Prefix */
            prefix: string;
            /**
             * Previous Until
             * @description The previous secret works until then.
             */
            previous_until?: string | null;
            /** Revoked At */
            revoked_at: string | null;
            /**
             * Scope
             * @description admin: everything; operate: nodes, engines, models, operations; infer: inference only
             * @default admin
             */
            scope: string;
            /**
             * State
             * @description active, expired, disabled (as its user is) or revoked
             */
            state: string;
            /** User Id */
            user_id?: string | null;
            /** User Name */
            user_name?: string | null;
        };
        /**
         * CreatedTokenOut
         * @description Response of `POST /api/tokens`: the new join token with its secret, which is shown only this once.
         */
        CreatedTokenOut: {
            /** Approves */
            approves: boolean;
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Created By */
            created_by: string;
            /** Expires At */
            expires_at: string | null;
            /** Id */
            id: string;
            /** Max Uses */
            max_uses: number | null;
            /** Name */
            name: string;
            /**
             * Prefix
             * @description The first characters, to tell tokens apart.
             */
            prefix: string;
            /** Revoked At */
            revoked_at: string | null;
            /**
             * State
             * @description active, used_up, expired or revoked
             */
            state: string;
            /**
             * Token
             * @description The secret. It is not shown again.
             */
            token: string;
            /** Uses */
            uses: number;
        };
        /**
         * DatasetListOut
         * @description Response of `GET /api/fine-tuning/datasets`: your datasets, newest first.
         */
        DatasetListOut: {
            /** Datasets */
            datasets: components["schemas"]["DatasetOut"][];
        };
        /**
         * DatasetOut
         * @description A dataset of examples, as it was found when it was uploaded.
         */
        DatasetOut: {
            /**
             * Columns
             * @description The columns that all rows have.
             */
            columns: string[];
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /**
             * Format
             * @description jsonl, csv or json.
             */
            format: string;
            /** Id */
            id: string;
            /** Name */
            name: string;
            /** Rows */
            rows: number;
            /** Sha256 */
            sha256: string;
            /** Size Bytes */
            size_bytes: number;
        };
        /**
         * DatasetSliceOut
         * @description Response of `GET /api/node/{node_id}/runs/{run_id}/fine-tuning/dataset`: bytes of a dataset.
         */
        DatasetSliceOut: {
            /** Content */
            content: string;
        };
        /**
         * DeclaredServerIn
         * @description Body of `PUT /api/mcp/servers/{name}`: an MCP server that an admin declares for all users of the cluster.
         *
         *     Either a program that workers start, or an address.
         */
        DeclaredServerIn: {
            /** Args */
            args?: string[];
            /**
             * Command
             * @default
             */
            command: string;
            /**
             * Cwd
             * @default
             */
            cwd: string;
            /**
             * Description
             * @description What people read who choose it.
             * @default
             */
            description: string;
            /**
             * Env
             * @description The whole environment. Secrets are references: cluster-secret:NAME.
             */
            env?: {
                [key: string]: string;
            };
            /**
             * Headers
             * @description Secret values are references: cluster-secret:NAME.
             */
            headers?: {
                [key: string]: string;
            };
            /**
             * Transport
             * @default stdio
             * @enum {string}
             */
            transport: "stdio" | "http" | "sse";
            /**
             * Url
             * @default
             */
            url: string;
        };
        /**
         * DeclaredServerListOut
         * @description Response of `GET /api/mcp/servers`: the MCP servers that admins have declared, sorted by name.
         */
        DeclaredServerListOut: {
            /** Servers */
            servers: components["schemas"]["DeclaredServerOut"][];
        };
        /**
         * DeclaredServerOut
         * @description An MCP server that an admin has declared for all users.
         *
         *     Users see its name and description, admins all of it.
         */
        DeclaredServerOut: {
            /**
             * Config
             * @description For admins.
             */
            config?: {
                [key: string]: unknown;
            } | null;
            /** Created By */
            created_by?: string | null;
            /**
             * Description
             * @default
             */
            description: string;
            /** Name */
            name: string;
            /** Transport */
            transport: string;
            /** Updated At */
            updated_at?: string | null;
        };
        /**
         * DependencyOut
         * @description Whether PostgreSQL or NATS works, as the frontend that responds sees it.
         */
        DependencyOut: {
            /**
             * Detail
             * @default
             */
            detail: string;
            /** State */
            state: string;
        };
        /**
         * DocumentChunksIn
         * @description Body with which a worker delivers chunks of a document. With `total` they are the last ones.
         */
        DocumentChunksIn: {
            /** Boot Id */
            boot_id?: string | null;
            /** Contents */
            contents?: string[];
            /** Embeddings */
            embeddings?: string[];
            /**
             * First
             * @default 0
             */
            first: number;
            /**
             * Job Id
             * @default
             */
            job_id: string;
            /** Total */
            total?: number | null;
        };
        /**
         * DocumentChunksOut
         * @description Response to a worker that delivered chunks: how many the document has so far.
         */
        DocumentChunksOut: {
            /** Stored */
            stored: number;
        };
        /**
         * DocumentSliceOut
         * @description Bytes of a document, in base64, for the worker that reads it.
         */
        DocumentSliceOut: {
            /** Content */
            content: string;
        };
        /**
         * EarlierMessageIn
         * @description One message of a conversation that was held before, as LocalAI's page sends it with the next one.
         */
        EarlierMessageIn: {
            /** Content */
            content: string;
            /**
             * Role
             * @enum {string}
             */
            role: "user" | "assistant";
        };
        /**
         * EmbeddingsIn
         * @description Body of `POST /v1/embeddings`, in OpenAI's form: texts for which a model computes vectors.
         */
        EmbeddingsIn: {
            /** Input */
            input: string | unknown[];
            /**
             * Model
             * @description The name of a model, or one of its aliases.
             */
            model: string;
        } & {
            [key: string]: unknown;
        };
        /**
         * EndedOperationOut
         * @description An operation that has ended, as `GET /api/operations/history` lists it.
         */
        EndedOperationOut: {
            /**
             * Createdat
             * Format: date-time
             */
            createdAt: string;
            /** Createdby */
            createdBy: string;
            /** Error */
            error?: string | null;
            /** Errorcode */
            errorCode?: string | null;
            /** Finishedat */
            finishedAt?: string | null;
            /** Fullname */
            fullName: string;
            /** Id */
            id: string;
            /** Isbackend */
            isBackend: boolean;
            /** Isdeletion */
            isDeletion: boolean;
            /** Jobid */
            jobID: string;
            /** Kind */
            kind: string;
            /**
             * Message
             * @default
             */
            message: string;
            /** Name */
            name: string;
            /**
             * Nodecount
             * @description Number of its nodes; 0 if it ended before any was chosen.
             * @default 0
             */
            nodeCount: number;
            /** Nodeid */
            nodeID?: string | null;
            /** Nodename */
            nodeName?: string | null;
            /**
             * Nodes
             * @description Names of its nodes at that time; the first twenty.
             */
            nodes?: string[];
            /**
             * Outcome
             * @description completed, failed, cancelled or superseded
             */
            outcome: string;
            /** Startedat */
            startedAt?: string | null;
            /** State */
            state: string;
            /** Tasktype */
            taskType: string;
        };
        /**
         * EngineLogLineOut
         * @description One line that an engine process has printed, with its number and time.
         */
        EngineLogLineOut: {
            /** At */
            at: string;
            /** Number */
            number: number;
            /** Stream */
            stream: string;
            /** Text */
            text: string;
        };
        /**
         * EngineLogOut
         * @description Response of `GET /api/nodes/{node}/backend-logs/{key}`: the last lines that an engine process printed.
         */
        EngineLogOut: {
            /**
             * First
             * @description Number of the oldest line that is still stored.
             */
            first: number;
            /** Key */
            key: string;
            /** Lines */
            lines: components["schemas"]["EngineLogLineOut"][];
            /**
             * Next
             * @description Send this as `after` to get the following lines.
             */
            next: number;
        };
        /**
         * EngineMemoryOut
         * @description Resident memory of all engine processes of one model, in the form of LocalAI.
         */
        EngineMemoryOut: {
            /**
             * Rss
             * @description Resident memory in bytes.
             */
            rss: number;
        };
        /**
         * EngineMonitorOut
         * @description Response of `GET /backend/monitor`: memory and processor use of one model's engine processes.
         *
         *     In total, as LocalAI reports it, and for each process.
         */
        EngineMonitorOut: {
            /**
             * Cpu Percent
             * @description 100 is one processor.
             */
            cpu_percent: number;
            memory_info: components["schemas"]["EngineMemoryOut"];
            /**
             * Memory Percent
             * @description Share of the memory of the nodes that run them, in percent.
             */
            memory_percent: number;
            /**
             * Model
             * @default
             */
            model: string;
            /** Processes */
            processes?: components["schemas"]["NodeEngineProcessOut"][];
            /**
             * Unreachable
             * @description Nodes that did not respond, and why.
             */
            unreachable?: {
                [key: string]: string;
            };
        };
        /**
         * EngineProcessOut
         * @description One engine process of a node (a program that serves a model), with its memory and processor use.
         */
        EngineProcessOut: {
            /** Address */
            address: string;
            /** Backend */
            backend: string;
            /**
             * Cpu Percent
             * @description Current processor use; 100 is one processor.
             */
            cpu_percent?: number | null;
            /** Key */
            key: string;
            /** Model */
            model: string;
            /** Pid */
            pid: number;
            /**
             * Ram Bytes
             * @description Resident memory of the process and its children.
             */
            ram_bytes?: number | null;
            /** Replica */
            replica: number;
            /**
             * Restarts
             * @default 0
             */
            restarts: number;
            /** State */
            state: string;
            /** Version */
            version: string;
            /** Vram Bytes */
            vram_bytes?: number | null;
        };
        /**
         * EngineResponseOut
         * @description Response of an inference route under `/v1`: the response of the model's engine.
         */
        EngineResponseOut: {
            [key: string]: unknown;
        };
        /**
         * EntryContentOut
         * @description Response with the text of a collection's entry, as its chunks and in one piece.
         */
        EntryContentOut: {
            /** Chunk Count */
            chunk_count: number;
            /** Chunks */
            chunks: string[];
            /** Content */
            content: string;
            entry: components["schemas"]["CollectionEntryOut"];
        };
        /**
         * EntryListOut
         * @description Response with the entries of a collection, by name; `entries` are the names alone, for LocalAI.
         */
        EntryListOut: {
            /** Count */
            count: number;
            /** Entries */
            entries: string[];
            /**
             * Has More
             * @default false
             */
            has_more: boolean;
            /** Items */
            items: components["schemas"]["CollectionEntryOut"][];
        };
        /**
         * EntryRefIn
         * @description Body that names an entry of a collection.
         */
        EntryRefIn: {
            /** Entry */
            entry: string;
        };
        /**
         * ErrorBody
         * @description The error inside an error response: a code for programs, a sentence and a hint for people.
         */
        ErrorBody: {
            /**
             * Code
             * @description Stable code for programs.
             */
            code: string;
            /** Details */
            details?: {
                [key: string]: unknown;
            };
            /** Hint */
            hint?: string | null;
            /**
             * Message
             * @description A sentence for people.
             */
            message: string;
            /**
             * Request Id
             * @description Id of the request in the logs.
             */
            request_id?: string | null;
            /**
             * Type
             * @description Kept for scripts of LocalAI: node_error on node routes.
             * @default corral_error
             */
            type: string;
        };
        /**
         * ErrorOut
         * @description Response body of every API request that failed.
         */
        ErrorOut: {
            error: components["schemas"]["ErrorBody"];
        };
        /**
         * EvictionVictimOut
         * @description A replica in the plan of a load that would be unloaded to make room.
         */
        EvictionVictimOut: {
            /** Index */
            index: number;
            /** Model */
            model: string;
            /** Node Id */
            node_id: string;
        };
        /**
         * ExcludedReplicaOut
         * @description A replica of a model that is loaded and gets no requests, and why.
         */
        ExcludedReplicaOut: {
            /** Node */
            node: string;
            /** Replica Id */
            replica_id: string;
            /** Sentence */
            sentence: string;
        };
        /**
         * ExplainRoutingIn
         * @description Body of `POST /api/explain`: the model whose request routing is to be explained.
         */
        ExplainRoutingIn: {
            /**
             * Model
             * @description A model's name or one of its aliases.
             */
            model: string;
        };
        /**
         * ExportResultIn
         * @description Body of `POST /api/node/{node_id}/runs/{run_id}/fine-tuning/export`: all files of an export were sent.
         */
        ExportResultIn: {
            /** Boot Id */
            boot_id?: string | null;
            /**
             * Job Id
             * @default
             */
            job_id: string;
        };
        /**
         * ExportResultOut
         * @description Response of `POST /api/node/{node_id}/runs/{run_id}/fine-tuning/export`: the model that the files have become.
         */
        ExportResultOut: {
            /**
             * Model
             * @default
             */
            model: string;
            /**
             * Problem
             * @default
             */
            problem: string;
        };
        /**
         * ExternalBackendIn
         * @description Body of `POST /api/backends/install-external`: installs a backend from an address, without a gallery.
         */
        ExternalBackendIn: {
            /**
             * Alias
             * @default
             */
            alias: string;
            /**
             * Ignore Capability
             * @description Also install on nodes whose hardware the build is not for.
             * @default false
             */
            ignore_capability: boolean;
            /**
             * Name
             * @description Name of the backend; required for OCI artifacts.
             * @default
             */
            name: string;
            /**
             * Nodes
             * @description Names or ids of nodes. Absent: all suitable nodes.
             */
            nodes?: string[] | null;
            /**
             * Sha256
             * @description SHA-256 of the file. Without it, the download is not verified.
             * @default
             */
            sha256: string;
            strategy?: components["schemas"]["StrategyIn"];
            /**
             * Uri
             * @description Address of an archive, a wheel or an OCI artifact.
             */
            uri: string;
            /**
             * Version
             * @description Version; empty: the newest.
             * @default
             */
            version: string;
        };
        /**
         * FileGarbageOut
         * @description Response of `POST /api/files/collect`: unused model files that a frontend has removed, or would remove.
         */
        FileGarbageOut: {
            /**
             * Dry Run
             * @description Dry run: nothing was removed; these files would be.
             */
            dry_run: boolean;
            /** Files */
            files: components["schemas"]["GarbageFileOut"][];
            /** Freed Bytes */
            freed_bytes: number;
        };
        /**
         * FileHolderOut
         * @description One place that keeps a copy of a model file: the library of a frontend, or a shared storage.
         */
        FileHolderOut: {
            /**
             * Is Shared
             * @description Every frontend and node can read from this holder.
             */
            is_shared: boolean;
            /**
             * Name
             * @description Id of a frontend, or the name of the shared storage.
             */
            name: string;
        };
        /**
         * FileOut
         * @description One model file, known by its sha256, with the models that use it and the places that keep a copy.
         */
        FileOut: {
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /**
             * Holders
             * @description Holders of the content; none: it must be downloaded again before another node can get it.
             */
            holders: components["schemas"]["FileHolderOut"][];
            /**
             * Models
             * @description Models that use the content; none: garbage collection removes it.
             */
            models: string[];
            /**
             * Nodes
             * @description Names of the nodes that have the whole content.
             */
            nodes?: string[];
            /** Sha256 */
            sha256: string;
            /** Size Bytes */
            size_bytes: number;
        };
        /**
         * FilesOut
         * @description Response of `GET /api/files`: a page of the model files that the cluster knows.
         */
        FilesOut: {
            /** Files */
            files: components["schemas"]["FileOut"][];
            /**
             * Next
             * @description Send this as `after` for the next page; null: this is the last page.
             */
            next: string | null;
        };
        /**
         * FineTuneBackendOut
         * @description An item of `GET /api/fine-tuning/backends`: a backend that trains models.
         */
        FineTuneBackendOut: {
            /**
             * Description
             * @default
             */
            description: string;
            /** Name */
            name: string;
            /** Tags */
            tags?: string[];
        };
        /**
         * FineTuneCurveOut
         * @description Response of `GET /api/fine-tuning/jobs/{id}/curve`: all points of a training, in their order.
         */
        FineTuneCurveOut: {
            /** Points */
            points: components["schemas"]["FineTunePointOut"][];
        };
        /**
         * FineTuneExportIn
         * @description Body of `POST /api/fine-tuning/jobs/{id}/export`: makes a model of a checkpoint.
         */
        FineTuneExportIn: {
            /**
             * Checkpoint Path
             * @description A checkpoint, such as checkpoint-20; empty: the newest.
             * @default
             */
            checkpoint_path: string;
            /**
             * Export Format
             * @description lora, merged_16bit or gguf.
             * @default lora
             */
            export_format: string;
            /**
             * Name
             * @description The name of the model; empty: made of the base and the job.
             * @default
             */
            name: string;
            /**
             * Quantization Method
             * @description The type of the weights of a gguf; empty: q4_k_m.
             * @default
             */
            quantization_method: string;
        };
        /**
         * FineTuneExportOut
         * @description An export of a fine-tuning: what was made of which checkpoint, and the model that it has become.
         */
        FineTuneExportOut: {
            /** Checkpoint */
            checkpoint: string;
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Export Format */
            export_format: string;
            /** Id */
            id: string;
            /** Message */
            message: string;
            /**
             * Model Name
             * @description The model that it has become; empty: none yet.
             */
            model_name: string;
            /** Name */
            name: string;
            /**
             * Quantization Method
             * @default
             */
            quantization_method: string;
            /**
             * Run Id
             * @default
             */
            run_id: string;
            /**
             * Status
             * @description exporting, completed or failed.
             */
            status: string;
        };
        /**
         * FineTuneIn
         * @description Body of `POST /api/fine-tuning/jobs`: starts a fine-tuning. Settings that are left out have their defaults.
         */
        FineTuneIn: {
            /**
             * Adapter Alpha
             * @description 16 if it is left out.
             */
            adapter_alpha?: number | null;
            /** Adapter Dropout */
            adapter_dropout?: number | null;
            /**
             * Adapter Rank
             * @description 16 if it is left out.
             */
            adapter_rank?: number | null;
            /**
             * Backend
             * @description The backend that trains; empty: trl.
             * @default
             */
            backend: string;
            /**
             * Batch Size
             * @description 2 if it is left out.
             */
            batch_size?: number | null;
            /**
             * Dataset Source
             * @description Id or name of an uploaded dataset.
             * @default
             */
            dataset_source: string;
            /**
             * Eval Split
             * @description The share of examples held out; 0.1 if it is left out.
             */
            eval_split?: number | null;
            /**
             * Extra Options
             * @description Settings by these names, too.
             */
            extra_options?: {
                [key: string]: unknown;
            } | null;
            /**
             * Gradient Accumulation Steps
             * @description 4 if it is left out.
             */
            gradient_accumulation_steps?: number | null;
            /**
             * Gradient Checkpointing
             * @description Takes less memory and more time.
             */
            gradient_checkpointing?: boolean | null;
            /**
             * Learning Rate
             * @description 2e-4 if it is left out.
             */
            learning_rate?: number | null;
            /**
             * Max Length
             * @description Tokens of an example; 512 if it is left out.
             */
            max_length?: number | null;
            /**
             * Max Steps
             * @description Ends the training earlier; 0: with its epochs.
             */
            max_steps?: number | null;
            /**
             * Model
             * @description A model of the catalog, with config.json, tokenizer and safetensors.
             */
            model: string;
            /**
             * Num Epochs
             * @description 3 if it is left out.
             */
            num_epochs?: number | null;
            /**
             * Num Generations
             * @description Answers to each question, for grpo and rloo.
             */
            num_generations?: number | null;
            /**
             * Optimizer
             * @description adamw_torch, adafactor or sgd.
             */
            optimizer?: string | null;
            /**
             * Resume From Checkpoint
             * @description A job, or one of its checkpoints: ID/checkpoint-20. Its newest one if none is named.
             * @default
             */
            resume_from_checkpoint: string;
            /**
             * Reward Functions
             * @description For grpo and rloo: format, reasoning_accuracy, length, xml_tags, no_repetition, code_syntax, or {"type": "inline", "name", "code"} if the operator allows it.
             */
            reward_functions?: unknown[] | null;
            /**
             * Save Steps
             * @description A checkpoint after so many steps; 500 if it is left out.
             */
            save_steps?: number | null;
            /**
             * Seed
             * @description 3407 if it is left out.
             */
            seed?: number | null;
            /**
             * Target Modules
             * @description Layers that get an adapter; empty: all linear.
             */
            target_modules?: string[] | null;
            /**
             * Training Method
             * @description sft, dpo, kto, grpo, rloo or reward.
             */
            training_method?: string | null;
            /**
             * Training Type
             * @description lora, or full for all weights.
             */
            training_type?: string | null;
            /**
             * Warmup Steps
             * @description 5 if it is left out.
             */
            warmup_steps?: number | null;
            /**
             * Weight Decay
             * @description 0.01 if it is left out.
             */
            weight_decay?: number | null;
        } & {
            [key: string]: unknown;
        };
        /**
         * FineTuneListOut
         * @description Response of `GET /api/fine-tuning/jobs`: fine-tunings, newest first.
         */
        FineTuneListOut: {
            /** Jobs */
            jobs: components["schemas"]["FineTuneOut"][];
        };
        /**
         * FineTuneOut
         * @description A fine-tuning: a run that trains a model, with its progress and its exports. LocalAI's fields first.
         */
        FineTuneOut: {
            /** Backend */
            backend: string;
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Current Epoch */
            current_epoch?: number | null;
            /**
             * Current Step
             * @default 0
             */
            current_step: number;
            /** Dataset Id */
            dataset_id: string;
            /** Dataset Source */
            dataset_source: string;
            /**
             * Error Code
             * @default
             */
            error_code: string;
            /** Eta Seconds */
            eta_seconds?: number | null;
            /** Eval Loss */
            eval_loss?: number | null;
            /**
             * Export Message
             * @default
             */
            export_message: string;
            /**
             * Export Model Name
             * @default
             */
            export_model_name: string;
            /**
             * Export Status
             * @description Of the newest export: exporting, completed, failed or empty.
             * @default
             */
            export_status: string;
            /** Exports */
            exports?: components["schemas"]["FineTuneExportOut"][];
            /** Finished At */
            finished_at?: string | null;
            /** Id */
            id: string;
            /**
             * Is Stopping
             * @description True once a stop with a checkpoint was requested.
             */
            is_stopping: boolean;
            /** Loss */
            loss?: number | null;
            /** Message */
            message: string;
            /** Model */
            model: string;
            /** Node Name */
            node_name: string;
            /**
             * Parameters
             * @description All settings of the training, defaults included.
             */
            parameters: {
                [key: string]: unknown;
            };
            /** Phase */
            phase: string;
            /** Progress Percent */
            progress_percent: number;
            /**
             * Result
             * @description The last line of the trainer: steps, loss, seconds, versions.
             */
            result: {
                [key: string]: unknown;
            };
            /**
             * Resumed From
             * @default
             */
            resumed_from: string;
            /** Run Id */
            run_id: string;
            /** Started At */
            started_at?: string | null;
            /**
             * Status
             * @description queued, loading_model, loading_dataset, training, saving, completed, failed or stopped.
             */
            status: string;
            /**
             * Total Steps
             * @default 0
             */
            total_steps: number;
            /** Training Method */
            training_method: string;
            /** Training Type */
            training_type: string;
            /** User Id */
            user_id: string;
        };
        /**
         * FineTunePointOut
         * @description One point of the curve of a fine-tuning. A value that was not measured then is null.
         */
        FineTunePointOut: {
            /** Epoch */
            epoch?: number | null;
            /** Eta Seconds */
            eta_seconds?: number | null;
            /** Eval Loss */
            eval_loss?: number | null;
            /** Grad Norm */
            grad_norm?: number | null;
            /** Learning Rate */
            learning_rate?: number | null;
            /** Loss */
            loss?: number | null;
            /** Reward */
            reward?: number | null;
            /** Step */
            step: number;
            /**
             * Total
             * @default 0
             */
            total: number;
        };
        /**
         * FineTuneSourceOut
         * @description Response of `POST /api/node/{node_id}/runs/{run_id}/fine-tuning/source`: the files of the model, as for a
         *     quantisation, and those of the checkpoint that the program begins with.
         */
        FineTuneSourceOut: {
            /** Checkpoint Files */
            checkpoint_files?: {
                [key: string]: unknown;
            }[];
            /** Checkpoint Sources */
            checkpoint_sources?: {
                [key: string]: unknown;
            }[];
            /**
             * Entry
             * @default
             */
            entry: string;
            /** Files */
            files?: {
                [key: string]: unknown;
            }[];
            /**
             * Folder
             * @default .
             */
            folder: string;
            /** Is Ready */
            is_ready: boolean;
            /**
             * Model
             * @default
             */
            model: string;
            /**
             * Operation Id
             * @default
             */
            operation_id: string;
            /**
             * Percent
             * @default 0
             */
            percent: number;
            /**
             * Revision
             * @default
             */
            revision: string;
            /** Sources */
            sources?: {
                [key: string]: unknown;
            }[];
        };
        /**
         * FineTuneStateIn
         * @description Body of `POST /api/node/{node_id}/runs/{run_id}/fine-tuning/state`: should the training end now?
         */
        FineTuneStateIn: {
            /** Boot Id */
            boot_id?: string | null;
            /**
             * Job Id
             * @default
             */
            job_id: string;
        };
        /**
         * FineTuneStateOut
         * @description Response of `POST /api/node/{node_id}/runs/{run_id}/fine-tuning/state`: whether the training is to end with a
         *     checkpoint behind the present step.
         */
        FineTuneStateOut: {
            /**
             * Must Stop
             * @default false
             */
            must_stop: boolean;
        };
        /**
         * FittingNodeOut
         * @description A node in the plan of a load that was not chosen although the replica would fit, with its cost.
         */
        FittingNodeOut: {
            /** Cost */
            cost?: {
                [key: string]: number;
            };
            /** Cost S */
            cost_s: number;
            /** Node Id */
            node_id: string;
            /** Node Name */
            node_name: string;
        };
        /**
         * FleetChangeOut
         * @description One change that applying a fleet file (the configuration of a whole cluster) makes, or would make.
         */
        FleetChangeOut: {
            /**
             * Action
             * @description create, change, remove or same
             */
            action: string;
            /** Changes */
            changes?: string[];
            /**
             * Kind
             * @description model, rule, labels, replica slots, VRAM budget, models gallery or backends gallery
             */
            kind: string;
            /** Name */
            name: string;
            /**
             * Stopped
             * @description Number of replicas that are stopped by the change.
             * @default 0
             */
            stopped: number;
        };
        /**
         * FleetChangesOut
         * @description Response of `POST /api/fleet`: the changes that applying a fleet file made, or would make.
         */
        FleetChangesOut: {
            /** Plan */
            plan: boolean;
            /** Steps */
            steps: components["schemas"]["FleetChangeOut"][];
        };
        /**
         * FormFieldOut
         * @description One input field of the form in which LocalAI's page edits an LLM agent.
         */
        FormFieldOut: {
            /** Defaultvalue */
            defaultValue?: unknown;
            /**
             * Disabled
             * @description The form has no control for such a value, and keeps it.
             * @default false
             */
            disabled: boolean;
            /**
             * Helptext
             * @default
             */
            helpText: string;
            /** Label */
            label: string;
            /** Max */
            max?: number | null;
            /** Min */
            min?: number | null;
            /** Name */
            name: string;
            /** Options */
            options?: components["schemas"]["FormOptionOut"][];
            /**
             * Required
             * @default false
             */
            required: boolean;
            tags: components["schemas"]["FormTagsOut"];
            /**
             * Type
             * @description text, textarea, checkbox, number or select.
             */
            type: string;
        };
        /**
         * FormOptionOut
         * @description One choice of an input field in the form of LocalAI's page that edits an LLM agent.
         */
        FormOptionOut: {
            /** Label */
            label: string;
            /** Value */
            value: unknown;
        };
        /**
         * FormTagsOut
         * @description The place of an input field in the form of LocalAI's page that edits an LLM agent.
         */
        FormTagsOut: {
            /**
             * Section
             * @description BasicInfo, ModelSettings, PromptsGoals or AdvancedSettings.
             */
            section: string;
        };
        /**
         * FoundChunkOut
         * @description One result of a search in a collection.
         */
        FoundChunkOut: {
            /** Content */
            content: string;
            /** Id */
            id: string;
            /**
             * Metadata
             * @description file_name, source (an address), chunk (its number).
             */
            metadata: {
                [key: string]: string;
            };
            /**
             * Score
             * @description The sum of the reciprocal ranks by meaning and by words: orders the results.
             */
            score: number;
            /**
             * Similarity
             * @description The cosine between the embeddings of query and text.
             */
            similarity: number;
        };
        /**
         * FrontendOut
         * @description One frontend process of the cluster (`corral serve`), as `GET /api/cluster` lists it.
         */
        FrontendOut: {
            /** Alive */
            alive: boolean;
            /** Host */
            host: string;
            /** Id */
            id: string;
            /** Leader */
            leader: boolean;
            /** Pid */
            pid: number;
            /** Port */
            port: number;
            /**
             * Seen At
             * Format: date-time
             */
            seen_at: string;
            /**
             * Started At
             * Format: date-time
             */
            started_at: string;
            /** Version */
            version: string;
        };
        /**
         * GalleryModelOut
         * @description One model that the model galleries offer for installation.
         */
        GalleryModelOut: {
            /**
             * Backend
             * @default
             */
            backend: string;
            /**
             * Description
             * @default
             */
            description: string;
            /** Gallery */
            gallery: string;
            /**
             * Has Variants
             * @description Only present if true.
             */
            has_variants?: boolean | null;
            /**
             * Icon
             * @default
             */
            icon: string;
            /** Id */
            id: string;
            /**
             * Installed
             * @default false
             */
            installed: boolean;
            /**
             * Isdeletion
             * @default false
             */
            isDeletion: boolean;
            /**
             * Isunverified
             * @default false
             */
            isUnverified: boolean;
            /** Jobid */
            jobID?: string | null;
            /**
             * License
             * @default
             */
            license: string;
            /**
             * Models
             * @description Models that were made from this entry.
             */
            models?: string[];
            /** Name */
            name: string;
            /**
             * Processing
             * @default false
             */
            processing: boolean;
            /** Serves */
            serves?: string[];
            /**
             * Size
             * @description Name for display.
             * @default
             */
            size: string;
            /** Sizebytes */
            sizeBytes?: number | null;
            /** Tags */
            tags?: string[];
            /** Urls */
            urls?: string[];
            /** Variants */
            variants?: string[];
        };
        /**
         * GalleryOut
         * @description A gallery (an index of backends or models to install), with when it was last fetched and what went wrong.
         */
        GalleryOut: {
            /**
             * Entries
             * @default 0
             */
            entries: number;
            /**
             * Fetched At
             * @description When the copy was last fetched or confirmed.
             */
            fetched_at?: string | null;
            /** Name */
            name: string;
            /**
             * Problem
             * @description Error of the last fetch; the previous copy stays in use.
             * @default
             */
            problem: string;
            /**
             * Url
             * @description Address without a password. The built-in gallery has none.
             * @default
             */
            url: string;
        };
        /**
         * GalleryPageOut
         * @description Response of `GET /api/models`: a page of the models that the galleries offer for installation.
         */
        GalleryPageOut: {
            /** Allbackends */
            allBackends: string[];
            /** Alltags */
            allTags: string[];
            /** Availablemodels */
            availableModels: number;
            /** Currentpage */
            currentPage: number;
            /** Installedmodels */
            installedModels: number;
            /** Models */
            models: components["schemas"]["GalleryModelOut"][];
            /** Processingmodels */
            processingModels?: {
                [key: string]: string;
            };
            /** Tasktypes */
            taskTypes?: {
                [key: string]: string;
            };
            /** Totalpages */
            totalPages: number;
        };
        /**
         * GalleryRefreshOut
         * @description Response to a request to fetch galleries again: their present state, while the refresh runs in the background.
         */
        GalleryRefreshOut: {
            /**
             * Galleries
             * @description The galleries as they are known now; read them again in a moment.
             */
            galleries: components["schemas"]["GalleryOut"][];
            /** Message */
            message: string;
        };
        /**
         * GarbageFileOut
         * @description One model file that no model uses and that garbage collection removed, or would remove.
         */
        GarbageFileOut: {
            /** Sha256 */
            sha256: string;
            /** Size Bytes */
            size_bytes: number;
        };
        /**
         * GpuReport
         * @description One GPU of a node, as the node's worker reads and reports it.
         */
        GpuReport: {
            /** Available Vram */
            available_vram?: number | null;
            /** Compute Capability */
            compute_capability?: string | null;
            /** Driver */
            driver?: string | null;
            /**
             * Index
             * @default 0
             */
            index: number;
            /**
             * Name
             * @default
             */
            name: string;
            /** Total Vram */
            total_vram?: number | null;
            /** Uuid */
            uuid?: string | null;
            /** Vendor */
            vendor: string;
        };
        /**
         * HeartbeatIn
         * @description Body of `POST /api/node/{node_id}/heartbeat`: a worker's sign of life with fresh hardware readings.
         *
         *     A field that is absent keeps its last value.
         */
        HeartbeatIn: {
            /** Architecture */
            architecture?: string | null;
            /** Available Disk */
            available_disk?: number | null;
            /** Available Ram */
            available_ram?: number | null;
            /** Available Vram */
            available_vram?: number | null;
            /** Boot Id */
            boot_id?: string | null;
            /**
             * Bus Ok
             * @description Whether the worker is on the bus.
             */
            bus_ok?: boolean | null;
            /** Capability */
            capability?: string | null;
            /** Cpu Cores */
            cpu_cores?: number | null;
            /** Cpu Threads */
            cpu_threads?: number | null;
            /** Gpu Compute Capability */
            gpu_compute_capability?: string | null;
            /** Gpu Vendor */
            gpu_vendor?: string | null;
            /** Gpus */
            gpus?: components["schemas"]["GpuReport"][] | null;
            /** System */
            system?: string | null;
            /**
             * Total Disk
             * @description The filesystem of the models directory.
             */
            total_disk?: number | null;
            /** Total Ram */
            total_ram?: number | null;
            /** Total Vram */
            total_vram?: number | null;
            /** Unified Memory */
            unified_memory?: boolean | null;
        };
        /**
         * HeartbeatOut
         * @description Response of `POST /api/node/{node_id}/heartbeat`: whether the node is approved or draining.
         *
         *     It also says when the worker sends the next heartbeat.
         */
        HeartbeatOut: {
            /** Approved */
            approved: boolean;
            /** Draining */
            draining: boolean;
            /** Heartbeat Interval S */
            heartbeat_interval_s: number;
            /**
             * Message
             * @default ok
             */
            message: string;
        };
        /**
         * HeldBlobIn
         * @description A model file on a node's disk, whole or in verified chunks, in the report that the node's worker sends.
         */
        HeldBlobIn: {
            /**
             * Is Whole
             * @default true
             */
            is_whole: boolean;
            /** Sha256 */
            sha256: string;
            /** Size Bytes */
            size_bytes: number;
        };
        /**
         * HeldFileIn
         * @description One file of a model on a node's disk, in the report that the node's worker sends.
         */
        HeldFileIn: {
            /** Path */
            path: string;
            /** Sha256 */
            sha256: string;
            /** Size Bytes */
            size_bytes: number;
        };
        /**
         * HeldModelIn
         * @description A model whose files are all on a node's disk, in the report that the node's worker sends.
         */
        HeldModelIn: {
            /** Files */
            files?: components["schemas"]["HeldFileIn"][];
            /** Name */
            name: string;
            /**
             * Revision
             * @default
             */
            revision: string;
        };
        /**
         * HistorySeriesOut
         * @description Response of `GET /api/history`: measurements of the last hour as time series, to draw curves of.
         *
         *     For each name there are as many values as there are times. Null: not known at that time.
         */
        HistorySeriesOut: {
            /**
             * At
             * @description Unix times in seconds.
             */
            at: number[];
            /** Series */
            series: {
                [key: string]: (number | null)[];
            };
            /**
             * Step S
             * @description Approximate distance between two times, in seconds.
             */
            step_s: number;
        };
        /**
         * HoldingsIn
         * @description Body of `POST /api/node/{node_id}/holdings`: a worker's report of its engine processes and model files.
         *
         *     A process that is not listed does not run.
         */
        HoldingsIn: {
            /**
             * Are Files Complete
             * @description Whether models and blobs are complete. If not, absent ones may still exist.
             * @default true
             */
            are_files_complete: boolean;
            /** Blobs */
            blobs?: components["schemas"]["HeldBlobIn"][];
            /** Boot Id */
            boot_id: string;
            /** Models */
            models?: components["schemas"]["HeldModelIn"][];
            /** Processes */
            processes?: components["schemas"]["RunningProcessIn"][];
        };
        /**
         * HoldingsResultOut
         * @description Response of `POST /api/node/{node_id}/holdings`: how the worker's report changed the replicas in PostgreSQL.
         *
         *     The lists hold the keys of engine processes.
         */
        HoldingsResultOut: {
            /** Adopted */
            adopted?: string[];
            /** Removed */
            removed?: string[];
            /** Stopping */
            stopping?: string[];
        };
        /**
         * ImageIn
         * @description Body of `POST /v1/images/generations`, in OpenAI's form: a text of which a model makes images.
         */
        ImageIn: {
            /**
             * Model
             * @description The name of a model, or one of its aliases.
             */
            model: string;
            /** Prompt */
            prompt: string;
        } & {
            [key: string]: unknown;
        };
        /**
         * ImportUriIn
         * @description Body of `POST /models/import-uri`, in LocalAI's form: makes a model of the file at an address.
         */
        ImportUriIn: {
            /**
             * Backend
             * @default
             */
            backend: string;
            /**
             * Name
             * @default
             */
            name: string;
            /** Uri */
            uri: string;
        };
        /**
         * InstallBackendIn
         * @description Body of `POST /api/backends/install/{name}`: installs a backend of a gallery on nodes.
         */
        InstallBackendIn: {
            /**
             * Force
             * @description Download and install again where it is installed already.
             * @default false
             */
            force: boolean;
            /**
             * Ignore Capability
             * @description Also install on nodes whose hardware the build is not for.
             * @default false
             */
            ignore_capability: boolean;
            /**
             * Nodes
             * @description Names or ids of nodes. Absent: all suitable nodes.
             */
            nodes?: string[] | null;
            strategy?: components["schemas"]["StrategyIn"];
            /**
             * Version
             * @description Version; empty: the newest.
             * @default
             */
            version: string;
        };
        /**
         * InstalledBackendIn
         * @description One backend (the software of an engine) that is installed on a node, in the report of the node's worker.
         */
        InstalledBackendIn: {
            /**
             * Alias
             * @default
             */
            alias: string;
            /**
             * Digest
             * @default
             */
            digest: string;
            /**
             * Gallery
             * @default
             */
            gallery: string;
            /**
             * Generation
             * @default 0
             */
            generation: number;
            /** Installed At */
            installed_at?: string | null;
            /**
             * Is System
             * @default false
             */
            is_system: boolean;
            /**
             * Meta
             * @default
             */
            meta: string;
            /** Name */
            name: string;
            /**
             * Previous Version
             * @default
             */
            previous_version: string;
            /** Size Bytes */
            size_bytes?: number | null;
            /**
             * Uri
             * @default
             */
            uri: string;
            /**
             * Version
             * @default
             */
            version: string;
        };
        /**
         * InstalledBackendOut
         * @description An item of `GET /backends`: one backend with the nodes that have it installed.
         *
         *     `Name`, `IsSystem`, `IsMeta` and `Nodes` are LocalAI's spelling.
         */
        InstalledBackendOut: {
            /**
             * Alias
             * @default
             */
            alias: string;
            /**
             * Available Version
             * @description The version that it can be upgraded to.
             * @default
             */
            available_version: string;
            /**
             * Gallery
             * @default
             */
            gallery: string;
            /**
             * Has Upgrade
             * @default false
             */
            has_upgrade: boolean;
            /**
             * Ismeta
             * @description Always false: an installed backend is a build.
             * @default false
             */
            IsMeta: boolean;
            /** Issystem */
            IsSystem: boolean;
            /**
             * Meta
             * @default
             */
            meta: string;
            /** Name */
            Name: string;
            /** Nodes */
            Nodes: components["schemas"]["BackendInstallationOut"][];
            /**
             * Upgrade Summary
             * @description Which version is the newest, and which nodes have another one.
             * @default
             */
            upgrade_summary: string;
            /**
             * Version
             * @description The version that most nodes have.
             * @default
             */
            version: string;
        };
        /**
         * InstalledSystemOut
         * @description Response of `GET /system`: the backends that are installed and the model replicas that are loaded.
         */
        InstalledSystemOut: {
            /**
             * Backends
             * @description Names of the backends that are installed on a node.
             */
            backends: string[];
            /** Loaded Models */
            loaded_models: components["schemas"]["LoadedReplicaOut"][];
        };
        /**
         * InstallModelIn
         * @description Body of `POST /api/models/install/{name}`: the gallery entry to make a model of, with variant and overrides.
         */
        InstallModelIn: {
            /**
             * Name
             * @description Name of the model; empty: that of the entry.
             * @default
             */
            name: string;
            /**
             * Overrides
             * @description Settings that override those of the entry.
             */
            overrides?: {
                [key: string]: unknown;
            };
            /**
             * Variant
             * @description Variant; empty: the one that fits the nodes.
             * @default
             */
            variant: string;
        };
        /**
         * JobCreatedOut
         * @description Response to a request to execute a task: the id of the job, and where to read its state.
         */
        JobCreatedOut: {
            /** Job Id */
            job_id: string;
            /** Status */
            status: string;
            /** Url */
            url: string;
        };
        /**
         * JobIn
         * @description Body of `POST /api/agent/jobs/execute`: the task to execute, with values for its prompt and attachments.
         */
        JobIn: {
            /** Audios */
            audios?: string[];
            /** Files */
            files?: string[];
            /**
             * Images
             * @description Addresses or data URIs.
             */
            images?: string[];
            /** Parameters */
            parameters?: {
                [key: string]: unknown;
            };
            /**
             * Task Id
             * @description Id or name of the task.
             */
            task_id: string;
            /**
             * Triggered By
             * @description manual: a person started it. Absent: as a session or a key tells.
             */
            triggered_by?: ("api" | "manual") | null;
            /** Videos */
            videos?: string[];
        };
        /**
         * JobMediaOut
         * @description An attachment that a job (one execution of a task) was given. Its content is kept until the job has ended.
         */
        JobMediaOut: {
            /**
             * Address
             * @description Where it was fetched from; empty: it came with the request.
             * @default
             */
            address: string;
            /** Kind */
            kind: string;
            /**
             * Name
             * @default
             */
            name: string;
            /** Size Bytes */
            size_bytes: number;
            /** Type */
            type: string;
        };
        /**
         * JobOut
         * @description A job in responses: one execution of a task, with its state and result.
         */
        JobOut: {
            /** Attachments */
            attachments?: components["schemas"]["JobMediaOut"][];
            /**
             * Attempt
             * @description How often a worker has begun it.
             */
            attempt: number;
            /**
             * Audios
             * @description The same of sounds.
             */
            audios?: string[];
            /** Completed At */
            completed_at?: string | null;
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /**
             * Error
             * @description Why the job has failed.
             * @default
             */
            error: string;
            /** Error Code */
            error_code?: string | null;
            /**
             * Files
             * @description The same of files.
             */
            files?: string[];
            /**
             * Has More Traces
             * @description `/api/runs/{id}/trace` has the rest.
             * @default false
             */
            has_more_traces: boolean;
            /** Id */
            id: string;
            /**
             * Images
             * @description The addresses of images; the type stands for one that came with the request.
             */
            images?: string[];
            /**
             * Message
             * @description A sentence about the state.
             */
            message: string;
            /** Model */
            model: string;
            /**
             * Node
             * @description The node that has or had it.
             * @default
             */
            node: string;
            /** Owner Name */
            owner_name: string;
            /** Parameters */
            parameters?: {
                [key: string]: unknown;
            };
            /**
             * Result
             * @description The answer, once the job has completed.
             * @default
             */
            result: string;
            /** Started At */
            started_at?: string | null;
            status: components["schemas"]["TaskRunStatus"];
            /**
             * Task
             * @description Name of the task when it was executed.
             */
            task: string;
            /**
             * Task Id
             * @description Absent if the task was deleted.
             */
            task_id: string | null;
            /**
             * Traces
             * @description The first entries; only for a single job.
             */
            traces?: components["schemas"]["JobTraceOut"][];
            /**
             * Triggered By
             * @description api, manual or cron.
             */
            triggered_by: string;
            /**
             * Videos
             * @description The same of videos.
             */
            videos?: string[];
            /**
             * Webhook Error
             * @description The last error of a webhook.
             * @default
             */
            webhook_error: string;
            /**
             * Webhook Sent
             * @description Whether all webhooks were delivered, and there are some.
             * @default false
             */
            webhook_sent: boolean;
            /**
             * Webhook Sent At
             * @description When the last of them was delivered.
             */
            webhook_sent_at?: string | null;
            /** Webhooks */
            webhooks?: components["schemas"]["JobWebhookOut"][];
        };
        /**
         * JobTraceOut
         * @description One entry in the trace of a job (one execution of a task), such as a tool call.
         *
         *     The fields behind `data` say the same for LocalAI's page.
         */
        JobTraceOut: {
            /**
             * Arguments
             * @description The arguments of a tool call.
             */
            arguments?: unknown;
            /**
             * Content
             * @description The text of the entry: of the model, of a result or of a state.
             * @default
             */
            content: string;
            /** Data */
            data?: {
                [key: string]: unknown;
            };
            /** Seq */
            seq: number;
            /**
             * Time
             * Format: date-time
             */
            time: string;
            /** Timestamp */
            timestamp?: string | null;
            /**
             * Tool
             * @default
             */
            tool: string;
            /**
             * Tool Name
             * @default
             */
            tool_name: string;
            /** Type */
            type: string;
        };
        /**
         * JobWebhookOut
         * @description The delivery of one webhook of a job (one execution of a task): whether the receiver accepted it.
         */
        JobWebhookOut: {
            /** Attempts */
            attempts: number;
            /** Delivered At */
            delivered_at?: string | null;
            /**
             * Last Error
             * @default
             */
            last_error: string;
            /** Last Status */
            last_status?: number | null;
            /**
             * State
             * @description pending, delivered or failed.
             */
            state: string;
            /** Url */
            url: string;
        };
        /**
         * JoinOut
         * @description Response of `GET /api/join`: commands that make another machine a node, and whether it can reach the cluster.
         */
        JoinOut: {
            /**
             * Command
             * @description Installs Corral and starts its worker; {token} stands for a join token.
             */
            command: string;
            /**
             * Command Without Curl
             * @description The same command for a machine without curl.
             */
            command_without_curl: string;
            /**
             * Hint
             * @description What to do about the problem.
             */
            hint: string | null;
            /**
             * Problem
             * @description Why other machines cannot reach this cluster; null: they can.
             */
            problem: string | null;
            /**
             * Script Sha256
             * @description SHA-256 of the script.
             */
            script_sha256: string;
            /**
             * Url
             * @description The address by which the other machine reaches this cluster.
             */
            url: string;
            /**
             * Version
             * @description The version that is installed.
             */
            version: string;
            /**
             * Wheel Sha256
             * @description SHA-256 of the wheel, which the script checks.
             */
            wheel_sha256: string;
            /**
             * Worker Command
             * @description Starts the worker where Corral is installed already.
             */
            worker_command: string;
        };
        /**
         * KeyIn
         * @description Body of `POST /api/keys`: the API key to create.
         */
        KeyIn: {
            /** Expires In S */
            expires_in_s?: number | null;
            /**
             * Limits
             * @default []
             */
            limits: components["schemas"]["LimitIn"][];
            /**
             * Models
             * @description Patterns such as llama-*; null: all models.
             */
            models?: string[] | null;
            /** Name */
            name: string;
            /**
             * @description admin: everything; operate: nodes, engines, models, operations; infer: inference only
             * @default infer
             */
            scope: components["schemas"]["Scope"];
            /**
             * User
             * @description User that the key belongs to; their scope also limits the key.
             */
            user?: string | null;
        };
        /**
         * KeyOut
         * @description An API key in responses of `/api/keys`: its scope, models and limits, without its secret.
         */
        KeyOut: {
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Created By */
            created_by: string;
            /** Expires At */
            expires_at: string | null;
            /** Id */
            id: string;
            /**
             * Last Used At
             * @description When it was last used, to about a minute; null: never.
             */
            last_used_at?: string | null;
            /**
             * Limits
             * @default []
             */
            limits: components["schemas"]["LimitOut"][];
            /**
             * Models
             * @description Patterns of models that it may use; null: all models.
             */
            models?: string[] | null;
            /** Name */
            name: string;
            /**
             * Node Id
             * @description The agent node that the key belongs to.
             */
            node_id?: string | null;
            /** Prefix */
            prefix: string;
            /**
             * Previous Until
             * @description The previous secret works until then.
             */
            previous_until?: string | null;
            /** Revoked At */
            revoked_at: string | null;
            /**
             * Scope
             * @description admin: everything; operate: nodes, engines, models, operations; infer: inference only
             * @default admin
             */
            scope: string;
            /**
             * State
             * @description active, expired, disabled (as its user is) or revoked
             */
            state: string;
            /** User Id */
            user_id?: string | null;
            /** User Name */
            user_name?: string | null;
        };
        /**
         * KeyPatch
         * @description Body of `PATCH /api/keys/{key_id}`: the fields of an API key to change; a field that is left out stays.
         */
        KeyPatch: {
            /**
             * Expires In S
             * @description New lifetime from now; null: it does not expire.
             */
            expires_in_s?: number | null;
            /**
             * Limits
             * @description The new limits; they replace all previous ones.
             * @default []
             */
            limits: components["schemas"]["LimitIn"][];
            /**
             * Models
             * @description Patterns such as llama-*; null: all models.
             */
            models?: string[] | null;
            /**
             * Name
             * @default
             */
            name: string;
            /**
             * @description admin: everything; operate: nodes, engines, models, operations; infer: inference only
             * @default admin
             */
            scope: components["schemas"]["Scope"];
        };
        /**
         * KnownBackendOut
         * @description An item of `GET /backends/known`: a backend that a model may choose, with its API calls and file formats.
         */
        KnownBackendOut: {
            /**
             * Description
             * @default
             */
            description: string;
            /** Formats */
            formats?: string[];
            /**
             * Installed
             * @default false
             */
            installed: boolean;
            /** Name */
            name: string;
            /** Serves */
            serves?: string[];
        };
        /**
         * LeaderOut
         * @description The leading frontend, which runs the loops that must run once, and the lease by which it leads.
         */
        LeaderOut: {
            /** Acquired At */
            acquired_at: string | null;
            /** Expires At */
            expires_at: string | null;
            /**
             * Holder
             * @description The frontend that runs the singleton loops.
             */
            holder: string | null;
            /**
             * Term
             * @description Increases with each change of leader; guarded writes carry it.
             */
            term: number;
        };
        /**
         * LimitIn
         * @description One limit to set on an API key: requests and tokens for one model, or for all models together.
         */
        LimitIn: {
            /**
             * Model
             * @description Name of the model, not an alias; empty: all models together.
             * @default
             */
            model: string;
            /** Requests Per Minute */
            requests_per_minute?: number | null;
            /**
             * Tokens Per Day
             * @description Limit for each calendar day in UTC.
             */
            tokens_per_day?: number | null;
            /** Tokens Per Minute */
            tokens_per_minute?: number | null;
            /**
             * Tokens Per Month
             * @description Limit for each calendar month in UTC.
             */
            tokens_per_month?: number | null;
        };
        /**
         * LimitOut
         * @description One limit of an API key in responses: requests and tokens for one model, or for all models together.
         */
        LimitOut: {
            /**
             * Model
             * @description Empty: all models together.
             * @default
             */
            model: string;
            /** Requests Per Minute */
            requests_per_minute?: number | null;
            /** Tokens Per Day */
            tokens_per_day?: number | null;
            /** Tokens Per Minute */
            tokens_per_minute?: number | null;
            /** Tokens Per Month */
            tokens_per_month?: number | null;
        };
        /**
         * LiveModelOut
         * @description The present work of one model and of each of its replicas, for live displays.
         */
        LiveModelOut: {
            /** In Flight */
            in_flight: number;
            /** Name */
            name: string;
            pace?: components["schemas"]["RequestPaceOut"];
            /** Replicas */
            replicas: components["schemas"]["LiveReplicaOut"][];
            /**
             * Waiting
             * @description Requests that wait for a replica, from all frontends.
             */
            waiting: number;
        };
        /**
         * LiveOut
         * @description Response of `GET /api/live`: the present work of the cluster, of each model and of each replica.
         *
         *     In `GET /api/stream` values that are at their default are left out.
         */
        LiveOut: {
            /**
             * Answered By
             * @description Id of the frontend that responded.
             */
            answered_by: string;
            /**
             * At
             * Format: date-time
             */
            at: string;
            /**
             * Degraded
             * @description What does not work at present, as sentences.
             */
            degraded?: string[];
            /**
             * Frontends
             * @description Number of frontends in these numbers; 1: only the one that responded.
             * @default 1
             */
            frontends: number;
            /**
             * Idle Models
             * @description Number of models without replicas and requests.
             */
            idle_models: number;
            /**
             * Models
             * @description Models with replicas or requests, busiest first.
             */
            models: components["schemas"]["LiveModelOut"][];
            pace?: components["schemas"]["RequestPaceOut"];
            /**
             * Requests Open
             * @description Requests in progress.
             */
            requests_open: number;
            /**
             * Streams Open
             * @description Requests in progress that are streams.
             */
            streams_open: number;
        };
        /**
         * LiveReplicaOut
         * @description The present work of one replica of a model, such as its open requests, for live displays.
         */
        LiveReplicaOut: {
            /**
             * Breaker
             * @default closed
             */
            breaker: string;
            /** Id */
            id: string;
            /**
             * In Flight
             * @description Requests in flight at this replica, from all frontends.
             */
            in_flight: number;
            /** Index */
            index: number;
            /**
             * Node
             * @description Name of the node.
             */
            node: string;
            pace?: components["schemas"]["RequestPaceOut"];
            /** State */
            state: string;
        };
        /**
         * LoadedReplicaOut
         * @description One replica of a model that is loaded in an engine, with the memory that it took; part of `GET /system`.
         */
        LoadedReplicaOut: {
            /**
             * Backend
             * @default
             */
            backend: string;
            /** Id */
            id: string;
            /** Node Id */
            node_id: string;
            /** Node Name */
            node_name: string;
            /** Ram Bytes */
            ram_bytes?: number | null;
            /** Replica Index */
            replica_index: number;
            /** Vram Bytes */
            vram_bytes?: number | null;
        };
        /**
         * LoadIn
         * @description Body of `POST /api/models/{name}/load`: how many replicas to add to a model, each on another node.
         */
        LoadIn: {
            /**
             * Count
             * @description Number of replicas to add.
             * @default 1
             */
            count: number;
            /**
             * Nodes
             * @description Names or ids of nodes; absent: Corral picks the best.
             */
            nodes?: string[] | null;
        };
        /**
         * LoadPlanIn
         * @description Body of `POST /api/plan`: a load of a model for which only the placement is to be computed.
         */
        LoadPlanIn: {
            /**
             * Count
             * @description Number of replicas to add.
             * @default 1
             */
            count: number;
            /** Model */
            model: string;
            /**
             * Nodes
             * @description Names or ids of nodes; absent: Corral picks the best.
             */
            nodes?: string[] | null;
        };
        /**
         * LoadPlanOut
         * @description Response of `POST /api/plan`: the nodes that would get a model's replicas now, and why others would not.
         *
         *     Nothing was changed.
         */
        LoadPlanOut: {
            /** Choices */
            choices?: components["schemas"]["PlacementOut"][];
            /**
             * Code
             * @description Code of the error, if no node fits.
             * @default
             */
            code: string;
            /** Evicts */
            evicts?: components["schemas"]["EvictionVictimOut"][];
            /**
             * Fetches Files
             * @description A frontend has to download its files first.
             */
            fetches_files: boolean;
            /** Fits */
            fits: boolean;
            /** Message */
            message: string;
            /** Model */
            model: string;
            /**
             * Others
             * @description Other nodes that fit, best first.
             */
            others?: components["schemas"]["FittingNodeOut"][];
            /**
             * Plan
             * @default true
             * @constant
             */
            plan: true;
            /** Refused */
            refused?: components["schemas"]["RefusedNodeOut"][];
            /** Warnings */
            warnings?: string[];
        };
        /**
         * LoadStatusOut
         * @description Response of `GET /api/models/{name}/load-status`: the progress of loading that model.
         *
         *     A value that is not known is absent.
         */
        LoadStatusOut: {
            /** Bytes Sent */
            bytes_sent?: number | null;
            /** Eta Seconds */
            eta_seconds?: number | null;
            /**
             * File Index
             * @description Number of that file among the model's files, from 1.
             */
            file_index?: number | null;
            /**
             * File Name
             * @description The file that moved last.
             */
            file_name?: string | null;
            /**
             * Message
             * @default
             */
            message: string;
            /** Model */
            model: string;
            /** Node */
            node?: string | null;
            /** Operation Id */
            operation_id?: string | null;
            /**
             * Progress
             * @description Percentage over all files, 0 to 100.
             */
            progress: number;
            /** State */
            state: string;
            /** Total Bytes */
            total_bytes?: number | null;
            /** Total Files */
            total_files?: number | null;
        };
        /**
         * LocalAiJobOut
         * @description Response about one operation in the form of LocalAI's jobs, for LocalAI's clients that poll it.
         */
        LocalAiJobOut: {
            /** Cancelled */
            cancelled?: boolean | null;
            /** Completed */
            completed?: boolean | null;
            /** Deletion */
            deletion: boolean;
            /** Error */
            error?: string | null;
            /** Galleryelementname */
            galleryElementName: string;
            /** Message */
            message: string;
            /** Phase */
            phase?: string | null;
            /** Processed */
            processed: boolean;
            /** Progress */
            progress: number;
            /** Queued */
            queued: boolean;
            /**
             * State
             * @description State of the operation in Corral's words, which are more exact.
             */
            state: string;
        };
        /**
         * LoginIn
         * @description Body of `POST /api/session`, which signs a person in: either a user name and its password, or an API key.
         */
        LoginIn: {
            /**
             * Key
             * @description An API key; the session has its scope and ends with it.
             */
            key?: string | null;
            /** Name */
            name?: string | null;
            /** Password */
            password?: string | null;
        };
        /**
         * LoginMethodsOut
         * @description Response of `GET /api/session/ways`: the ways to sign in that this cluster offers.
         */
        LoginMethodsOut: {
            /** Password */
            password: boolean;
            /**
             * Provider
             * @description The OpenID Connect provider behind /api/session/oidc; null: none.
             */
            provider: string | null;
        };
        /**
         * McpServerFetchIn
         * @description Body of `POST /api/node/{node_id}/mcp`: a worker requests how to reach an MCP server that it has to call.
         */
        McpServerFetchIn: {
            /**
             * Ticket
             * @default
             */
            ticket: string;
        };
        /**
         * McpServerFetchOut
         * @description Response of `POST /api/node/{node_id}/mcp`: how a worker reaches an MCP server, with secrets in clear.
         *
         *     It also has the key of the MCP sessions.
         */
        McpServerFetchOut: {
            server: components["schemas"]["McpServerSpec"];
            /** Session Key */
            session_key: string;
        };
        /**
         * McpServerIn
         * @description An MCP server at an address that an LLM agent or a task may call; part of the body that saves it.
         */
        McpServerIn: {
            /**
             * Headers
             * @description Secret values are references: secret:NAME.
             */
            headers?: {
                [key: string]: string;
            };
            /**
             * Name
             * @description Names of its tools begin with it. Without one: made from the address.
             * @default
             */
            name: string;
            /**
             * Token
             * @description Sent as `Authorization: Bearer`. A reference: secret:NAME.
             * @default
             */
            token: string;
            /**
             * Transport
             * @description http: streamable HTTP; sse: the older form.
             * @default http
             * @enum {string}
             */
            transport: "http" | "sse";
            /** Url */
            url: string;
        };
        /**
         * McpServerSpec
         * @description One MCP server that a run may call, as its runner gets it: an address, or a program that the worker starts.
         */
        McpServerSpec: {
            /** Args */
            args?: string[];
            /**
             * Call S
             * @default 360
             */
            call_s: number;
            /**
             * Command
             * @default
             */
            command: string;
            /**
             * Connect S
             * @default 60
             */
            connect_s: number;
            /**
             * Cwd
             * @default
             */
            cwd: string;
            /** Env */
            env?: {
                [key: string]: string;
            };
            /** Headers */
            headers?: {
                [key: string]: string;
            };
            /**
             * Is Public Only
             * @default false
             */
            is_public_only: boolean;
            /** Name */
            name: string;
            /** Tools */
            tools?: string[] | null;
            /**
             * Transport
             * @enum {string}
             */
            transport: "http" | "sse" | "stdio";
            /**
             * Url
             * @default
             */
            url: string;
        };
        /**
         * MediaKind
         * @description Names the kind of an attachment of a task's job: image, video, audio or file.
         * @enum {string}
         */
        MediaKind: "image" | "video" | "audio" | "file";
        /**
         * MediaSourceBody
         * @description An address in a task, from which a frontend fetches an attachment for each job of the task.
         */
        MediaSourceBody: {
            /**
             * Headers
             * @description Values may refer to secrets: `Bearer secret:NAME`.
             */
            headers?: {
                [key: string]: string;
            };
            type: components["schemas"]["MediaKind"];
            /** Url */
            url: string;
        };
        /**
         * MemoryEstimateOut
         * @description Response of `GET /api/models/estimate/{name}`: memory that a replica would take; empty if unknown.
         */
        MemoryEstimateOut: {
            /**
             * Context
             * @description Bytes of memory by context size.
             */
            context?: {
                [key: string]: number;
            };
            /**
             * Is Observed
             * @default false
             */
            is_observed: boolean;
            /** Size Bytes */
            size_bytes?: number | null;
        };
        /**
         * MessageOut
         * @description Response that is only a sentence for people, which says what was done.
         */
        MessageOut: {
            /** Message */
            message: string;
        };
        /**
         * ModelCapabilitiesListOut
         * @description Response of `GET /api/models/capabilities`: the models that the caller may use, and what each can do.
         */
        ModelCapabilitiesListOut: {
            /** Data */
            data: components["schemas"]["ModelCapabilitiesOut"][];
        };
        /**
         * ModelCapabilitiesOut
         * @description One model that the caller may use: which API calls it answers and on which nodes it is loaded.
         */
        ModelCapabilitiesOut: {
            /**
             * Backend
             * @default
             */
            backend: string;
            /** Capabilities */
            capabilities: string[];
            /**
             * Disabled
             * @default false
             */
            disabled: boolean;
            /** Id */
            id: string;
            /**
             * Load Failed
             * @description The last load failed, and there are no replicas.
             * @default false
             */
            load_failed: boolean;
            /** Loaded On */
            loaded_on?: components["schemas"]["ModelNodeOut"][];
            /** Name */
            name: string;
            /**
             * Pinned
             * @default false
             */
            pinned: boolean;
            /**
             * Source
             * @description registry-only: the model runs, but its configuration no longer exists.
             * @default
             */
            source: string;
        };
        /**
         * ModelNameIn
         * @description Body of LocalAI's `POST /backend/load` and `/backend/shutdown`: the name of a model to load or unload.
         */
        ModelNameIn: {
            /** Model */
            model: string;
        };
        /**
         * ModelNodeOut
         * @description A node on which a model is loaded; part of `GET /api/models/capabilities`.
         */
        ModelNodeOut: {
            /** Node Id */
            node_id: string;
            /** Node Name */
            node_name: string;
            /** Node Status */
            node_status: string;
            /** State */
            state: string;
        };
        /**
         * ModelOperationOut
         * @description Response to a request for a change of a model: the operation that makes it, with where to follow it.
         */
        ModelOperationOut: {
            /**
             * Deduplicated
             * @default false
             */
            deduplicated: boolean;
            /** Id */
            id: string;
            /**
             * Jobid
             * @description The same as `id`.
             */
            jobID: string;
            /** Message */
            message: string;
            /**
             * Name
             * @description Name of the model.
             */
            name: string;
            /** State */
            state: string;
            /**
             * Status
             * @description The same as `statusUrl`.
             */
            status: string;
            /** Statusurl */
            statusUrl: string;
            /**
             * Uuid
             * @description The same as `id`.
             */
            uuid: string;
            /** Warnings */
            warnings?: string[];
        };
        /**
         * ModelOut
         * @description A model with its configuration, files and replicas, as `GET /api/models/config/{name}` responds.
         */
        ModelOut: {
            /**
             * Adapters
             * @description The LoRA adapters that its engines load.
             */
            adapters?: string[];
            /** Aliases */
            aliases?: string[];
            /** Backend */
            backend: string;
            /**
             * Base
             * @description Of a LoRA adapter: the model whose engines load it.
             * @default
             */
            base: string;
            /** Config */
            config: {
                [key: string]: unknown;
            };
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /**
             * Description
             * @default
             */
            description: string;
            /**
             * Enabled
             * @default true
             */
            enabled: boolean;
            /**
             * Facts
             * @description Facts from the headers of its files.
             */
            facts?: {
                [key: string]: unknown;
            } | null;
            /**
             * Files
             * @description Files of the model; null: they have not been downloaded yet.
             */
            files?: components["schemas"]["StoredFileOut"][] | null;
            /**
             * Gallery
             * @description The gallery entry that the model was made from.
             * @default
             */
            gallery: string;
            /**
             * Has Rule
             * @default false
             */
            has_rule: boolean;
            /**
             * Load Error
             * @description Why the last load failed. Empty if it did not fail, or if the configuration has changed since.
             * @default
             */
            load_error: string;
            /** Load Failed At */
            load_failed_at?: string | null;
            /** Name */
            name: string;
            /** Payload Bytes */
            payload_bytes?: number | null;
            /**
             * Pinned
             * @default false
             */
            pinned: boolean;
            /** @description What the model was made from, if a quantisation has made it. */
            provenance?: components["schemas"]["ModelProvenanceOut"] | null;
            /** Replicas */
            replicas?: components["schemas"]["ModelReplicaOut"][];
            /** Revision */
            revision: number;
            /**
             * Run Hash
             * @description Hash of the settings that an engine depends on; replicas with another hash get no requests.
             */
            run_hash: string;
            /**
             * Updated At
             * Format: date-time
             */
            updated_at: string;
            /**
             * Variant
             * @default
             */
            variant: string;
        };
        /**
         * ModelPlanOut
         * @description Response to a dry run of an installation: the model that it would create. Nothing was changed.
         */
        ModelPlanOut: {
            /** Backend */
            backend: string;
            /** Changes */
            changes?: string[];
            /**
             * Checked
             * @description Whether the sources of its files were checked and have them.
             * @default false
             */
            checked: boolean;
            /** Config */
            config: {
                [key: string]: unknown;
            };
            /**
             * Exists
             * @description Whether a model of this name exists; it would be changed.
             */
            exists: boolean;
            /**
             * Fits On
             * @description Nodes with room for it; null: not checked.
             */
            fits_on?: string[] | null;
            /**
             * Memory Bytes
             * @description Estimated memory of a replica; null: not known.
             */
            memory_bytes?: number | null;
            /** Name */
            name: string;
            /**
             * Plan
             * @default true
             * @constant
             */
            plan: true;
            /** Size Bytes */
            size_bytes?: number | null;
            /**
             * Variant
             * @default
             */
            variant: string;
            /** Warnings */
            warnings?: string[];
        };
        /**
         * ModelPromptArgumentOut
         * @description One argument of a prompt that an MCP server offers.
         */
        ModelPromptArgumentOut: {
            /**
             * Description
             * @default
             */
            description: string;
            /** Name */
            name: string;
            /**
             * Required
             * @default false
             */
            required: boolean;
        };
        /**
         * ModelPromptOut
         * @description An item of `GET /v1/mcp/prompts/{model}`: a prompt that one of the model's MCP servers offers.
         */
        ModelPromptOut: {
            /** Arguments */
            arguments?: components["schemas"]["ModelPromptArgumentOut"][];
            /**
             * Description
             * @default
             */
            description: string;
            /** Name */
            name: string;
            /** Server */
            server: string;
            /**
             * Title
             * @default
             */
            title: string;
        };
        /**
         * ModelProvenanceOut
         * @description Says what a model was made from by a quantisation: the model, its weights, the tool and the file.
         */
        ModelProvenanceOut: {
            /**
             * Is Requantized
             * @description True if the weights had been quantised before: they lost precision twice.
             */
            is_requantized: boolean;
            /**
             * Model
             * @description The model that was quantised, as it was named then.
             */
            model: string;
            /** Run Id */
            run_id: string;
            /** Sha256 */
            sha256: string;
            /** Size Bytes */
            size_bytes: number;
            /** Source Bytes */
            source_bytes?: number | null;
            /** Source Sha256 */
            source_sha256: string;
            /**
             * Source Types
             * @description Types of the weights that were read.
             */
            source_types?: string[];
            /**
             * Sources
             * @description Where the files of that model came from.
             */
            sources?: string[];
            /** Tool */
            tool: string;
            /** Weight Type */
            weight_type: string;
        };
        /**
         * ModelReplicaOut
         * @description One replica of a model (a copy that an engine has loaded), with its node and state.
         */
        ModelReplicaOut: {
            /**
             * Address
             * @default
             */
            address: string;
            /**
             * In Flight
             * @default 0
             */
            in_flight: number;
            /**
             * Index
             * @default 0
             */
            index: number;
            /**
             * Is Current
             * @description False: the replica has an older revision and gets no requests.
             * @default true
             */
            is_current: boolean;
            /** Last Used At */
            last_used_at?: string | null;
            /** Loaded At */
            loaded_at?: string | null;
            /** Node Id */
            node_id: string;
            /** Node Name */
            node_name: string;
            /**
             * Node Status
             * @default
             */
            node_status: string;
            /** Ram Bytes */
            ram_bytes?: number | null;
            /** State */
            state: string;
            /**
             * Stop Problem
             * @default
             */
            stop_problem: string;
            /**
             * Stop Reason
             * @default
             */
            stop_reason: string;
            /**
             * Version
             * @default
             */
            version: string;
            /** Vram Bytes */
            vram_bytes?: number | null;
        };
        /**
         * ModelResourceOut
         * @description An item of `GET /v1/mcp/resources/{model}`: a resource that one of the model's MCP servers offers.
         */
        ModelResourceOut: {
            /**
             * Description
             * @default
             */
            description: string;
            /**
             * Mimetype
             * @default
             */
            mimeType: string;
            /** Name */
            name: string;
            /** Server */
            server: string;
            /** Uri */
            uri: string;
        };
        /**
         * ModelServerOut
         * @description One MCP server that is configured for a model, with its tools, or why it cannot be reached.
         */
        ModelServerOut: {
            /**
             * Error
             * @description Why the server offers nothing now; empty if it has answered.
             * @default
             */
            error: string;
            /**
             * Error Code
             * @description The same for programs.
             * @default
             */
            error_code: string;
            /** Name */
            name: string;
            /**
             * Prompts
             * @description Names of prompts.
             */
            prompts: string[];
            /**
             * Resources
             * @description Addresses of resources.
             */
            resources: string[];
            /** Tool Details */
            tool_details?: components["schemas"]["ModelToolOut"][];
            /**
             * Tools
             * @description Names of tools as a model calls them: `server__tool`.
             */
            tools: string[];
            /**
             * Type
             * @description `remote` for an address, `stdio` for a program.
             */
            type: string;
        };
        /**
         * ModelServersOut
         * @description Response of `GET /v1/mcp/servers/{model}`: the MCP servers that are configured for the model.
         */
        ModelServersOut: {
            /** Model */
            model: string;
            /** Servers */
            servers: components["schemas"]["ModelServerOut"][];
        };
        /**
         * ModelToolOut
         * @description One tool of an MCP server, as the model may call it.
         */
        ModelToolOut: {
            /**
             * Description
             * @default
             */
            description: string;
            /**
             * Input Schema
             * @description The JSON schema of the arguments.
             */
            input_schema?: {
                [key: string]: unknown;
            };
            /**
             * Name
             * @description The name under which a model calls the tool: `server__tool`.
             */
            name: string;
            /**
             * Read Only
             * @description Whether the server says that a call changes nothing.
             * @default false
             */
            read_only: boolean;
            /**
             * Tool
             * @description The name of the tool at its server.
             */
            tool: string;
        };
        /**
         * NodeBackendChangeIn
         * @description Body that upgrades, reinstalls, rolls back or deletes one backend on one node.
         */
        NodeBackendChangeIn: {
            /** Backend */
            backend: string;
            strategy?: components["schemas"]["StrategyIn"];
            /**
             * Version
             * @default
             */
            version: string;
        };
        /**
         * NodeBackendInstallIn
         * @description Body that installs a backend on one node: a `backend` of a gallery, or a `uri` with a name.
         */
        NodeBackendInstallIn: {
            /**
             * Alias
             * @default
             */
            alias: string;
            /**
             * Backend
             * @default
             */
            backend: string;
            /**
             * Backend Galleries
             * @description Field of LocalAI. Galleries are a setting of the frontends; leave it empty.
             */
            backend_galleries?: {
                [key: string]: unknown;
            }[];
            /**
             * Force
             * @default false
             */
            force: boolean;
            /**
             * Ignore Capability
             * @default false
             */
            ignore_capability: boolean;
            /**
             * Name
             * @default
             */
            name: string;
            /**
             * Sha256
             * @default
             */
            sha256: string;
            strategy?: components["schemas"]["StrategyIn"];
            /**
             * Uri
             * @default
             */
            uri: string;
            /**
             * Version
             * @default
             */
            version: string;
        };
        /**
         * NodeBackendOut
         * @description An item of `GET /api/nodes/{node}/backends`: one backend that is installed on that node.
         */
        NodeBackendOut: {
            /**
             * Alias
             * @default
             */
            alias: string;
            /**
             * Digest
             * @default
             */
            digest: string;
            /**
             * Gallery
             * @default
             */
            gallery: string;
            /**
             * Gallery Url
             * @description LocalAI's name for `gallery`.
             * @default
             */
            gallery_url: string;
            /**
             * Generation
             * @default 0
             */
            generation: number;
            /** Installed At */
            installed_at?: string | null;
            /**
             * Is Meta
             * @default false
             */
            is_meta: boolean;
            /**
             * Is System
             * @default false
             */
            is_system: boolean;
            /**
             * Meta
             * @default
             */
            meta: string;
            /** Name */
            name: string;
            /**
             * Previous Version
             * @default
             */
            previous_version: string;
            /** Size Bytes */
            size_bytes?: number | null;
            /**
             * Uri
             * @default
             */
            uri: string;
            /**
             * Version
             * @default
             */
            version: string;
        };
        /**
         * NodeConditionOut
         * @description One condition of a node, such as being unreachable, with since when it holds and why.
         */
        NodeConditionOut: {
            /**
             * Holds
             * @description Whether the condition holds; null: not known yet.
             */
            holds: boolean | null;
            /** Name */
            name: string;
            /**
             * Reason
             * @default
             */
            reason: string;
            /** Since */
            since?: string | null;
        };
        /**
         * NodeDriftOut
         * @description A node whose installed version of a backend differs from that of most nodes.
         */
        NodeDriftOut: {
            /**
             * Digest
             * @default
             */
            digest: string;
            /** Node Id */
            node_id: string;
            /** Node Name */
            node_name: string;
            /**
             * Version
             * @default
             */
            version: string;
        };
        /**
         * NodeEngineProcessOut
         * @description One engine process of the cluster, with the node on which it runs.
         */
        NodeEngineProcessOut: {
            /** Address */
            address: string;
            /** Backend */
            backend: string;
            /**
             * Cpu Percent
             * @description Current processor use; 100 is one processor.
             */
            cpu_percent?: number | null;
            /** Key */
            key: string;
            /** Model */
            model: string;
            /** Node Id */
            node_id: string;
            /** Node Name */
            node_name: string;
            /** Pid */
            pid: number;
            /**
             * Ram Bytes
             * @description Resident memory of the process and its children.
             */
            ram_bytes?: number | null;
            /** Replica */
            replica: number;
            /**
             * Restarts
             * @default 0
             */
            restarts: number;
            /** State */
            state: string;
            /** Version */
            version: string;
            /** Vram Bytes */
            vram_bytes?: number | null;
        };
        /**
         * NodeModelIn
         * @description Body that unloads or deletes a model on one node, in the form that LocalAI's clients send.
         */
        NodeModelIn: {
            /**
             * Force
             * @description Do not wait for requests in flight.
             * @default false
             */
            force: boolean;
            /** Model Name */
            model_name: string;
        };
        /**
         * NodeOut
         * @description A node as admins see it in `GET /api/nodes`. `status` is computed from the conditions and not stored.
         */
        NodeOut: {
            /** Address */
            address: string;
            /**
             * Address Note
             * @description A sentence if the node registered another host than it connected from; otherwise empty.
             * @default
             */
            address_note: string;
            /** Architecture */
            architecture?: string | null;
            /** Available Disk */
            available_disk?: number | null;
            /** Available Ram */
            available_ram?: number | null;
            /** Available Vram */
            available_vram?: number | null;
            /** Boot Id */
            boot_id: string;
            /** Capability */
            capability?: string | null;
            /** Conditions */
            conditions: components["schemas"]["NodeConditionOut"][];
            /** Cpu Cores */
            cpu_cores?: number | null;
            /** Cpu Threads */
            cpu_threads?: number | null;
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Gpu Compute Capability */
            gpu_compute_capability?: string | null;
            /** Gpu Vendor */
            gpu_vendor?: string | null;
            /** Gpus */
            gpus?: components["schemas"]["GpuReport"][] | null;
            /**
             * Held Threads
             * @description Threads assigned to the replicas on this node, out of `cpu_threads`.
             * @default 0
             */
            held_threads: number;
            /** Http Address */
            http_address: string;
            /** Id */
            id: string;
            /**
             * In Flight Count
             * @description Requests in flight at its replicas, from all frontends. At most one second old while live views are open, otherwise at most two seconds.
             * @default 0
             */
            in_flight_count: number;
            /**
             * Label Sources
             * @description Source of each label by key: auto, worker or admin.
             */
            label_sources: {
                [key: string]: string;
            };
            /** Labels */
            labels: {
                [key: string]: string;
            };
            /** Last Heartbeat */
            last_heartbeat: string | null;
            /** Max Replicas Per Model */
            max_replicas_per_model: number;
            /** Max Replicas Per Model Manually Set */
            max_replicas_per_model_manually_set: boolean;
            /**
             * Max Runs
             * @description Runs that the node executes at the same time; null or 0: none.
             */
            max_runs?: number | null;
            /**
             * Model Count
             * @description Number of loaded replicas.
             * @default 0
             */
            model_count: number;
            /** Name */
            name: string;
            /** Node Type */
            node_type: string;
            /**
             * Proposed Labels
             * @description Labels from the worker that no admin has approved: they are ignored by selectors and rules.
             */
            proposed_labels?: {
                [key: string]: string;
            };
            /**
             * Reported Available Vram
             * @description Total VRAM before the budget is applied.
             */
            reported_available_vram?: number | null;
            /**
             * Reserved Vram
             * @default 0
             */
            reserved_vram: number;
            /** Schedulable */
            schedulable: boolean;
            /**
             * Seen Address
             * @description The host that the last registration came from.
             * @default
             */
            seen_address: string;
            /** Status */
            status: string;
            /** Status Reason */
            status_reason: string;
            /** System */
            system?: string | null;
            /**
             * Total Disk
             * @description The filesystem of the models directory.
             */
            total_disk?: number | null;
            /** Total Ram */
            total_ram?: number | null;
            /** Total Vram */
            total_vram?: number | null;
            /** Unified Memory */
            unified_memory?: boolean | null;
            /**
             * Updated At
             * Format: date-time
             */
            updated_at: string;
            /** Version */
            version: string;
            /** Vram Budget */
            vram_budget: string;
            /** Vram Budget Bytes */
            vram_budget_bytes?: number | null;
            /** Vram Budget Manually Set */
            vram_budget_manually_set: boolean;
        };
        /**
         * NodeProbeOut
         * @description Response of `POST /api/nodes/{node}/probe`: what the node's worker replied over NATS.
         *
         *     The reply says which worker process runs there, since when, and on which hardware.
         */
        NodeProbeOut: {
            /** Boot Id */
            boot_id: string;
            /** Hardware */
            hardware?: {
                [key: string]: unknown;
            };
            /** Name */
            name: string;
            /** Node Id */
            node_id: string;
            /** Uptime S */
            uptime_s: number;
            /** Version */
            version: string;
        };
        /**
         * NodeUpgradeOut
         * @description One node that is behind, with its present version of a backend and the version that an upgrade would install.
         */
        NodeUpgradeOut: {
            /**
             * From Version
             * @default
             */
            from_version: string;
            /** Node Id */
            node_id: string;
            /** Node Name */
            node_name: string;
            /**
             * To Version
             * @default
             */
            to_version: string;
        };
        /**
         * ObservableListOut
         * @description Response of `GET /api/agents/{name}/observables`: the newest turns and tool calls of that LLM agent.
         */
        ObservableListOut: {
            /** History */
            history: components["schemas"]["ObservableOut"][];
            /**
             * History
             * @description The same as `history`.
             */
            History: components["schemas"]["ObservableOut"][];
            /** Name */
            Name: string;
        };
        /**
         * ObservableOut
         * @description One entry that LocalAI calls an observable: a turn of an LLM agent, or a tool call in it.
         *
         *     `creation` and `completion` hold what LocalAI's page reads beside Corral's own fields.
         */
        ObservableOut: {
            /** Agent */
            agent: string;
            /**
             * Completion
             * @description What it ended with; absent: it has not.
             */
            completion?: {
                [key: string]: unknown;
            } | null;
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /**
             * Creation
             * @description What it began with.
             */
            creation?: {
                [key: string]: unknown;
            };
            /** Id */
            id: string;
            /**
             * Name
             * @description `chat` for a turn, else the name of the tool.
             */
            name: string;
            /** Parent Id */
            parent_id?: string | null;
            /** State */
            state: string;
        };
        /**
         * OpenAiFileDeletedOut
         * @description Response of `DELETE /v1/files/{file_id}`: confirms that the file was deleted.
         */
        OpenAiFileDeletedOut: {
            /**
             * Deleted
             * @default true
             */
            deleted: boolean;
            /** Id */
            id: string;
            /**
             * Object
             * @default file
             * @constant
             */
            object: "file";
        };
        /**
         * OpenAiFileListOut
         * @description Response of `GET /v1/files`: a page of the caller's files.
         */
        OpenAiFileListOut: {
            /** Data */
            data: components["schemas"]["OpenAiFileOut"][];
            /** First Id */
            first_id?: string | null;
            /**
             * Has More
             * @default false
             */
            has_more: boolean;
            /** Last Id */
            last_id?: string | null;
            /**
             * Object
             * @default list
             * @constant
             */
            object: "list";
        };
        /**
         * OpenAiFileOut
         * @description A file that a user uploaded or a batch wrote, in the form of OpenAI's files API (`/v1/files`).
         */
        OpenAiFileOut: {
            /** Bytes */
            bytes: number;
            /**
             * Created At
             * @description Seconds since 1970.
             */
            created_at: number;
            /** Expires At */
            expires_at?: number | null;
            /** Filename */
            filename: string;
            /** Id */
            id: string;
            /**
             * Object
             * @default file
             * @constant
             */
            object: "file";
            /** Purpose */
            purpose: string;
            /**
             * Status
             * @default processed
             * @constant
             */
            status: "processed";
        };
        /**
         * OpenAiModelListOut
         * @description Response of `GET /v1/models`: the models that the caller may use, in OpenAI's form.
         */
        OpenAiModelListOut: {
            /** Data */
            data: components["schemas"]["OpenAiModelOut"][];
            /**
             * Object
             * @default list
             */
            object: string;
        };
        /**
         * OpenAiModelOut
         * @description One model that the caller may use, in the form of OpenAI's models API.
         */
        OpenAiModelOut: {
            /**
             * Created
             * @description Unix time in seconds.
             */
            created: number;
            /** Id */
            id: string;
            /**
             * Object
             * @default model
             */
            object: string;
            /**
             * Owned By
             * @default corral
             */
            owned_by: string;
        };
        /**
         * OperationActionOut
         * @description Response to cancelling, pausing, resuming or dismissing an operation: its state, and a sentence.
         */
        OperationActionOut: {
            /** Message */
            message: string;
            operation: components["schemas"]["OperationOut"];
            /**
             * Success
             * @default true
             */
            success: boolean;
        };
        /**
         * OperationDetailOut
         * @description Response of `GET /api/operations/{operation_id}`: an operation with all details of its nodes.
         */
        OperationDetailOut: {
            /**
             * Afterid
             * @description This operation starts when that one has ended.
             */
            afterID?: string | null;
            /**
             * Attempt
             * @default 0
             */
            attempt: number;
            /** Cancellable */
            cancellable: boolean;
            /**
             * Createdat
             * Format: date-time
             */
            createdAt: string;
            /** Createdby */
            createdBy: string;
            /** Currentbytes */
            currentBytes?: number | null;
            /** Deadlineat */
            deadlineAt?: string | null;
            /** Dismissedat */
            dismissedAt?: string | null;
            /** Dismissedby */
            dismissedBy?: string | null;
            /** Error */
            error?: string | null;
            /** Errorcode */
            errorCode?: string | null;
            /** Finishedat */
            finishedAt?: string | null;
            /**
             * Fullname
             * @description Name with gallery and node.
             */
            fullName: string;
            /** Id */
            id: string;
            /** Isbackend */
            isBackend: boolean;
            /** Isdeletion */
            isDeletion: boolean;
            /** Isqueued */
            isQueued: boolean;
            /**
             * Isreaped
             * @description The failure was not observed; a reported outcome may still replace it.
             * @default false
             */
            isReaped: boolean;
            /**
             * Jobid
             * @description The same as `id`.
             */
            jobID: string;
            /** Kind */
            kind: string;
            /** Message */
            message: string;
            /**
             * Name
             * @description Name without gallery and node.
             */
            name: string;
            /**
             * Nodeid
             * @description Only set for an operation on exactly one node.
             */
            nodeID?: string | null;
            /** Nodename */
            nodeName?: string | null;
            /** Nodes */
            nodes?: components["schemas"]["TargetDetailOut"][];
            /**
             * Owner
             * @description The frontend that drives the operation now.
             */
            owner?: string | null;
            /** Phase */
            phase?: string | null;
            /**
             * Progress
             * @description Percentage, 0 to 100.
             */
            progress: number;
            /**
             * Request
             * @description All parameters of the request; a retry uses the same.
             */
            request: {
                [key: string]: unknown;
            };
            /** Retryof */
            retryOf?: string | null;
            /**
             * Rev
             * @description Increases with every change; the larger revision is the newer state.
             */
            rev: number;
            /** Startedat */
            startedAt?: string | null;
            /** State */
            state: string;
            /** Tasktype */
            taskType: string;
            /** Totalbytes */
            totalBytes?: number | null;
            /**
             * Updatedat
             * Format: date-time
             */
            updatedAt: string;
        };
        /**
         * OperationHistoryOut
         * @description Response of `GET /api/operations/history`: a page of the operations that have ended.
         */
        OperationHistoryOut: {
            /**
             * Next
             * @description Send this as `before` for the next page; absent on the last page.
             */
            next?: string | null;
            /** Operations */
            operations: components["schemas"]["EndedOperationOut"][];
            /**
             * Stale
             * @description Why the list may be out of date, if it may be.
             */
            stale?: string | null;
        };
        /**
         * OperationNoteOut
         * @description One line in the log of an operation, as `GET /api/operations/{operation_id}/events` lists it.
         */
        OperationNoteOut: {
            /**
             * At
             * Format: date-time
             */
            at: string;
            /** Level */
            level: string;
            /**
             * Node Name
             * @default
             */
            node_name: string;
            /** Text */
            text: string;
        };
        /**
         * OperationOut
         * @description An operation (a long action that Corral drives on nodes), as `GET /api/operations` lists it.
         */
        OperationOut: {
            /**
             * Afterid
             * @description This operation starts when that one has ended.
             */
            afterID?: string | null;
            /** Cancellable */
            cancellable: boolean;
            /**
             * Createdat
             * Format: date-time
             */
            createdAt: string;
            /** Createdby */
            createdBy: string;
            /** Currentbytes */
            currentBytes?: number | null;
            /** Deadlineat */
            deadlineAt?: string | null;
            /** Error */
            error?: string | null;
            /** Errorcode */
            errorCode?: string | null;
            /** Finishedat */
            finishedAt?: string | null;
            /**
             * Fullname
             * @description Name with gallery and node.
             */
            fullName: string;
            /** Id */
            id: string;
            /** Isbackend */
            isBackend: boolean;
            /** Isdeletion */
            isDeletion: boolean;
            /** Isqueued */
            isQueued: boolean;
            /**
             * Jobid
             * @description The same as `id`.
             */
            jobID: string;
            /** Kind */
            kind: string;
            /** Message */
            message: string;
            /**
             * Name
             * @description Name without gallery and node.
             */
            name: string;
            /**
             * Nodeid
             * @description Only set for an operation on exactly one node.
             */
            nodeID?: string | null;
            /** Nodename */
            nodeName?: string | null;
            /** Nodes */
            nodes?: components["schemas"]["TargetOut"][];
            /** Phase */
            phase?: string | null;
            /**
             * Progress
             * @description Percentage, 0 to 100.
             */
            progress: number;
            /** Retryof */
            retryOf?: string | null;
            /**
             * Rev
             * @description Increases with every change; the larger revision is the newer state.
             */
            rev: number;
            /** Startedat */
            startedAt?: string | null;
            /** State */
            state: string;
            /** Tasktype */
            taskType: string;
            /** Totalbytes */
            totalBytes?: number | null;
            /**
             * Updatedat
             * Format: date-time
             */
            updatedAt: string;
        };
        /**
         * OperationRetryOut
         * @description Response to retrying an operation: the new operation that repeats the old one.
         */
        OperationRetryOut: {
            /**
             * Deduplicated
             * @default false
             */
            deduplicated: boolean;
            /** Id */
            id: string;
            /** Message */
            message: string;
            operation: components["schemas"]["OperationOut"];
            /**
             * Success
             * @default true
             */
            success: boolean;
        };
        /**
         * OperationsOut
         * @description Response of `GET /api/operations`: the operations that are active or have failed lately.
         */
        OperationsOut: {
            /** Operations */
            operations: components["schemas"]["OperationOut"][];
        };
        /**
         * PendingApprovalOut
         * @description A tool call of a run that waits for a person to allow or refuse it, or has been decided.
         */
        PendingApprovalOut: {
            /**
             * Approved
             * @description Absent until a person has decided.
             */
            approved?: boolean | null;
            /** Arguments */
            arguments?: unknown;
            /** Call Id */
            call_id: string;
            /**
             * Reason
             * @default
             */
            reason: string;
            /** Requested At */
            requested_at?: string | null;
            /** Tool */
            tool: string;
        };
        /**
         * PlacementOut
         * @description One replica in the plan of a load: the node that would get it, its memory and estimated seconds.
         */
        PlacementOut: {
            /**
             * Backend
             * @default
             */
            backend: string;
            /**
             * Cost
             * @description Cost in seconds by which the node was chosen.
             */
            cost?: {
                [key: string]: number;
            };
            /**
             * Fetch Bytes
             * @description Bytes of the files that the node still has to download.
             */
            fetch_bytes?: number | null;
            /** Index */
            index: number;
            /**
             * Installs Backend
             * @default false
             */
            installs_backend: boolean;
            /** Node Id */
            node_id: string;
            /** Node Name */
            node_name: string;
            /** Ram Bytes */
            ram_bytes?: number | null;
            /**
             * Ready S
             * @description Estimated seconds until the replica is ready.
             */
            ready_s: number;
            /** Threads */
            threads: number;
            /**
             * Version
             * @default
             */
            version: string;
            /** Vram Bytes */
            vram_bytes?: number | null;
        };
        /**
         * PlannedNodeOut
         * @description One node in a dry run of an engine backend operation: the change that the operation would make there.
         */
        PlannedNodeOut: {
            /**
             * Backend
             * @description The build that is picked for its hardware.
             */
            backend: string;
            /** Desired */
            desired: string;
            /**
             * Fetch Bytes
             * @description Estimated download size; null: not known.
             */
            fetch_bytes?: number | null;
            /**
             * Has It
             * @description The node already has this version; nothing changes there.
             * @default false
             */
            has_it: boolean;
            /** Node Id */
            node_id: string;
            /** Node Name */
            node_name: string;
            /**
             * Node Status
             * @description Status of the node; an offline node gets the change when it is back.
             */
            node_status: string;
            /**
             * Previous Version
             * @description The version that the node has now.
             * @default
             */
            previous_version: string;
            /**
             * Source
             * @default
             */
            source: string;
            /**
             * Uri
             * @default
             */
            uri: string;
            /**
             * Version
             * @default
             */
            version: string;
            /**
             * Wave
             * @default 0
             */
            wave: number;
        };
        /**
         * PrefetchEntryOut
         * @description What a frontend does about one engine backend or model that a worker wants on its disk in advance.
         */
        PrefetchEntryOut: {
            /**
             * Kind
             * @description backend or model.
             */
            kind: string;
            /**
             * Message
             * @default
             */
            message: string;
            /** Name */
            name: string;
            /**
             * Operation Id
             * @description The operation that installs or downloads it, if there is one.
             */
            operation_id?: string | null;
            /**
             * State
             * @description present, requested or refused. A refused entry may be requested again later.
             */
            state: string;
        };
        /**
         * PrefetchIn
         * @description Body of `POST /api/node/{node_id}/prefetch`: backends and models that a worker wants on its disk in advance.
         */
        PrefetchIn: {
            /**
             * Backends
             * @description Names of the catalog: a meta, a build, gallery@name.
             */
            backends?: string[];
            /** Boot Id */
            boot_id: string;
            /**
             * Models
             * @description Models of the cluster, by name or alias.
             */
            models?: string[];
        };
        /**
         * PrefetchOut
         * @description Response of `POST /api/node/{node_id}/prefetch`: the state of each backend and model that the worker listed.
         */
        PrefetchOut: {
            /** Entries */
            entries: components["schemas"]["PrefetchEntryOut"][];
        };
        /**
         * PromptExpansionIn
         * @description Body of `POST /v1/mcp/prompts/{model}/{prompt}`: arguments that an MCP server fills into its prompt.
         */
        PromptExpansionIn: {
            /** Arguments */
            arguments?: {
                [key: string]: string;
            };
            /**
             * Server
             * @description The server that has the prompt; empty: the first that has it.
             * @default
             */
            server: string;
        };
        /**
         * PromptMessageOut
         * @description One message that an MCP server made of its prompt, as text; content that is no text is its JSON.
         */
        PromptMessageOut: {
            /** Content */
            content: string;
            /** Role */
            role: string;
        };
        /**
         * PromptMessagesOut
         * @description Response of `POST /v1/mcp/prompts/{model}/{prompt}`: the chat messages that an MCP server made of its prompt.
         */
        PromptMessagesOut: {
            /**
             * Description
             * @default
             */
            description: string;
            /** Messages */
            messages: components["schemas"]["PromptMessageOut"][];
        };
        /**
         * QuantilePairOut
         * @description Median and 95th percentile of a response time in seconds. Null: nothing was measured in the last minute.
         */
        QuantilePairOut: {
            /** P50 */
            p50?: number | null;
            /** P95 */
            p95?: number | null;
        };
        /**
         * QuantizationBackendOut
         * @description An item of `GET /api/quantization/backends`: a backend that quantises models.
         */
        QuantizationBackendOut: {
            /**
             * Description
             * @default
             */
            description: string;
            /** Name */
            name: string;
            /** Tags */
            tags?: string[];
        };
        /**
         * QuantizationImportIn
         * @description Body of `POST /api/quantization/jobs/{id}/import`: registers a result as a model.
         */
        QuantizationImportIn: {
            /**
             * Name
             * @description The name of the model; empty: made of the source and the type.
             * @default
             */
            name: string;
        };
        /**
         * QuantizationImportOut
         * @description Response of `POST /api/quantization/jobs/{id}/import`: the model that the result has become.
         */
        QuantizationImportOut: {
            /** Message */
            message: string;
            /** Name */
            name: string;
            /**
             * Status
             * @default completed
             * @constant
             */
            status: "completed";
        };
        /**
         * QuantizationIn
         * @description Body of `POST /api/quantization/jobs`: starts a quantisation of a model of the catalog.
         */
        QuantizationIn: {
            /**
             * Backend
             * @description The backend that quantises; empty: llama-cpp-quantization.
             * @default
             */
            backend: string;
            /**
             * Base
             * @description If the model is a PEFT LoRA adapter: the GGUF model that it changes.
             * @default
             */
            base: string;
            /**
             * Imatrix
             * @description The path of an importance matrix among the model's files.
             * @default
             */
            imatrix: string;
            /**
             * Model
             * @description A model of the catalog, with GGUF or safetensors files.
             */
            model: string;
            /**
             * Name
             * @description The name under which the result is registered as a model; empty: it is not registered.
             * @default
             */
            name: string;
            /**
             * Quantization Type
             * @description The type of the weights, such as q4_k_m, q8_0 or f16.
             * @default q4_k_m
             */
            quantization_type: string;
        };
        /**
         * QuantizationListOut
         * @description Response of `GET /api/quantization/jobs`: quantisations, newest first.
         */
        QuantizationListOut: {
            /** Jobs */
            jobs: components["schemas"]["QuantizationOut"][];
        };
        /**
         * QuantizationOut
         * @description A quantisation: a run that makes a model smaller, with its progress and its result. LocalAI's fields first.
         */
        QuantizationOut: {
            /** Backend */
            backend: string;
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /**
             * Error Code
             * @default
             */
            error_code: string;
            /** Finished At */
            finished_at?: string | null;
            /** Id */
            id: string;
            /**
             * Import Message
             * @default
             */
            import_message: string;
            /**
             * Import Model Name
             * @description The model that the result has become.
             * @default
             */
            import_model_name: string;
            /**
             * Import Status
             * @description completed, failed or empty: whether the result is a model.
             * @default
             */
            import_status: string;
            /** Message */
            message: string;
            /** Model */
            model: string;
            /**
             * Name
             * @description The name that the result gets.
             */
            name: string;
            /** Node Name */
            node_name: string;
            /**
             * Output File
             * @description The name of the result's file.
             * @default
             */
            output_file: string;
            /**
             * Phase
             * @description downloading, converting, quantizing, uploading, or empty before the first.
             */
            phase: string;
            /** Progress Percent */
            progress_percent: number;
            provenance?: components["schemas"]["ModelProvenanceOut"] | null;
            /** Quantization Type */
            quantization_type: string;
            /** Run Id */
            run_id: string;
            /**
             * Sha256
             * @default
             */
            sha256: string;
            /** Size Bytes */
            size_bytes?: number | null;
            /** Started At */
            started_at?: string | null;
            /**
             * Status
             * @description queued, downloading, converting, quantizing, completed, failed or stopped.
             */
            status: string;
            /** User Id */
            user_id: string;
        };
        /**
         * QuantizationPlanOut
         * @description Response of `GET /api/quantization/plan`: what each type would make of a model.
         */
        QuantizationPlanOut: {
            /**
             * Can Run On
             * @description Nodes that could quantise it now.
             */
            can_run_on: string[];
            /**
             * Is Requantized
             * @description True if the weights are quantised already.
             */
            is_requantized: boolean;
            /** Model */
            model: string;
            /**
             * Quantization Type
             * @description The type of the model's weights now; empty if unknown.
             */
            quantization_type: string;
            /** Size Bytes */
            size_bytes: number | null;
            /** Types */
            types: components["schemas"]["QuantizationSizeOut"][];
        };
        /**
         * QuantizationResultIn
         * @description Body of `POST /api/node/{node_id}/runs/{run_id}/quantization/result`: a worker has sent the file it has made.
         */
        QuantizationResultIn: {
            /** Boot Id */
            boot_id?: string | null;
            /**
             * Is Requantized
             * @default false
             */
            is_requantized: boolean;
            /**
             * Job Id
             * @default
             */
            job_id: string;
            /** Sha256 */
            sha256?: string | null;
            /** Source Types */
            source_types?: string[];
            /**
             * Tool
             * @default
             */
            tool: string;
        };
        /**
         * QuantizationResultOut
         * @description Response of `POST /api/node/{node_id}/runs/{run_id}/quantization/result`: the model that the file has become.
         */
        QuantizationResultOut: {
            /** File Name */
            file_name: string;
            /**
             * Model
             * @default
             */
            model: string;
            /**
             * Problem
             * @default
             */
            problem: string;
            /** Size Bytes */
            size_bytes: number;
        };
        /**
         * QuantizationSizeOut
         * @description The size that a model is expected to have with one type of weights, and the nodes on which it would fit.
         */
        QuantizationSizeOut: {
            /** Bits Per Weight */
            bits_per_weight: number;
            /**
             * Fits On
             * @description Nodes whose free GPU memory, or RAM without a GPU, holds the weights.
             */
            fits_on: string[];
            /** Quantization Type */
            quantization_type: string;
            /**
             * Size Bytes
             * @description Expected; null: nothing is known of the model yet.
             */
            size_bytes: number | null;
        };
        /**
         * QuantizationSourceIn
         * @description Body of `POST /api/node/{node_id}/runs/{run_id}/quantization/source`: where does the worker get the files?
         */
        QuantizationSourceIn: {
            /** Boot Id */
            boot_id?: string | null;
            /**
             * Job Id
             * @default
             */
            job_id: string;
            /**
             * Operation Id
             * @default
             */
            operation_id: string;
        };
        /**
         * QuantizationSourceOut
         * @description Response of `POST /api/node/{node_id}/runs/{run_id}/quantization/source`: the files with their addresses.
         *
         *     While an operation brings the files into the library, only the operation and its progress.
         */
        QuantizationSourceOut: {
            /**
             * Entry
             * @default
             */
            entry: string;
            /** Files */
            files?: {
                [key: string]: unknown;
            }[];
            /** Is Ready */
            is_ready: boolean;
            /**
             * Model
             * @default
             */
            model: string;
            /**
             * Operation Id
             * @default
             */
            operation_id: string;
            /**
             * Percent
             * @default 0
             */
            percent: number;
            /**
             * Revision
             * @default
             */
            revision: string;
            /** Sources */
            sources?: {
                [key: string]: unknown;
            }[];
        };
        /**
         * RefusedNodeOut
         * @description A node in the plan of a load that cannot take the replica, and why.
         */
        RefusedNodeOut: {
            /** Node Id */
            node_id: string;
            /** Node Name */
            node_name: string;
            /** Reason */
            reason: string;
            /** Sentence */
            sentence: string;
        };
        /**
         * RefusedUpgradeOut
         * @description A backend that `POST /api/backends/upgrades/apply` did not upgrade, and why.
         */
        RefusedUpgradeOut: {
            /** Backend */
            backend: string;
            /** Code */
            code: string;
            /** Message */
            message: string;
        };
        /**
         * RegisterIn
         * @description Body of `POST /api/node/register`: a worker registers its machine as a node, first and after every start.
         */
        RegisterIn: {
            /**
             * Address
             * @default
             */
            address: string;
            /** Architecture */
            architecture?: string | null;
            /** Available Disk */
            available_disk?: number | null;
            /** Available Ram */
            available_ram?: number | null;
            /** Available Vram */
            available_vram?: number | null;
            /** Boot Id */
            boot_id: string;
            /**
             * Bus Public Key
             * @description The worker's public nkey; the seed never leaves the machine.
             */
            bus_public_key?: string | null;
            /** Capability */
            capability?: string | null;
            /** Cpu Cores */
            cpu_cores?: number | null;
            /** Cpu Threads */
            cpu_threads?: number | null;
            /**
             * Credential
             * @description The secret that the worker generated; only its hash is stored.
             */
            credential: string;
            /** Gpu Compute Capability */
            gpu_compute_capability?: string | null;
            /** Gpu Vendor */
            gpu_vendor?: string | null;
            /** Gpus */
            gpus?: components["schemas"]["GpuReport"][] | null;
            /**
             * Http Address
             * @default
             */
            http_address: string;
            /**
             * Is Running Known
             * @description False while the worker still checks the engines of its earlier process: no replica is removed before its first holdings report.
             * @default true
             */
            is_running_known: boolean;
            /** Labels */
            labels?: {
                [key: string]: string;
            };
            /**
             * Max Replicas Per Model
             * @default 1
             */
            max_replicas_per_model: number;
            /**
             * Max Runs
             * @description Runs that the worker executes at the same time; absent or 0: none.
             */
            max_runs?: number | null;
            /** Name */
            name: string;
            /**
             * Node Type
             * @default backend
             */
            node_type: string;
            /**
             * Run Kinds
             * @description Kinds of runs that the worker executes; it is given no others. Absent: those of the first version with runs.
             */
            run_kinds?: string[] | null;
            /**
             * Running
             * @description Engines of an earlier process of this worker that are ready: they keep serving.
             */
            running?: components["schemas"]["SurvivingEngineIn"][];
            /** System */
            system?: string | null;
            /**
             * Token
             * @description A join token, if it is not sent as a bearer token.
             */
            token?: string | null;
            /**
             * Total Disk
             * @description The filesystem of the models directory.
             */
            total_disk?: number | null;
            /** Total Ram */
            total_ram?: number | null;
            /** Total Vram */
            total_vram?: number | null;
            /** Unified Memory */
            unified_memory?: boolean | null;
            /**
             * Version
             * @default
             */
            version: string;
            /** Vram Budget */
            vram_budget?: string | null;
        };
        /**
         * RegisterOut
         * @description Response of `POST /api/node/register`: the registered node, and its bus credential if it is approved.
         */
        RegisterOut: {
            /**
             * Api Token
             * @description For agent nodes: an API key, sent only once.
             */
            api_token?: string | null;
            /** Approved */
            approved: boolean;
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Heartbeat Interval S */
            heartbeat_interval_s: number;
            /** Id */
            id: string;
            /** Max Replicas Per Model */
            max_replicas_per_model: number;
            /** Name */
            name: string;
            /** Nats Jwt */
            nats_jwt?: string | null;
            /** Nats Jwt Expires In S */
            nats_jwt_expires_in_s?: number | null;
            /**
             * Nats Url
             * @description Address of the bus; absent while the node is pending.
             */
            nats_url?: string | null;
            /** Node Type */
            node_type: string;
            /** Status */
            status: string;
            /**
             * Ticket Key
             * @description The public key that tickets of other nodes are checked with.
             */
            ticket_key?: string | null;
        };
        /**
         * RenameIn
         * @description Body of `POST /api/models/rename`: models to rename, from old names to new ones; all of them or none.
         */
        RenameIn: {
            /** Names */
            names: {
                [key: string]: string;
            };
        };
        /**
         * ReplicaOut
         * @description An item of `GET /api/nodes/{node}/models`: a replica of a model on a node, with LocalAI's field names.
         */
        ReplicaOut: {
            /** Address */
            address: string;
            /**
             * Backend Type
             * @description The backend of its engine.
             * @default
             */
            backend_type: string;
            /** Config Revision */
            config_revision: string;
            /** Created At */
            created_at?: string | null;
            /** Id */
            id: string;
            /** In Flight */
            in_flight: number;
            /** Last Used */
            last_used: string | null;
            /**
             * Loading By
             * @description The operation that is loading it; empty once it is loaded.
             * @default
             */
            loading_by: string;
            /** Model Name */
            model_name: string;
            /** Node Id */
            node_id: string;
            /** Replica Index */
            replica_index: number;
            /** State */
            state: string;
            /** Updated At */
            updated_at?: string | null;
        };
        /**
         * ReplicaSlotsIn
         * @description Body of `PUT /api/nodes/{node}/max-replicas-per-model`: how many replicas of one model the node may hold.
         */
        ReplicaSlotsIn: {
            /** Value */
            value: number;
        };
        /**
         * ReplicaSlotsOut
         * @description Response to a change of how many replicas of one model a node may hold: the number that counts now.
         */
        ReplicaSlotsOut: {
            /** Max Replicas Per Model */
            max_replicas_per_model: number;
            /**
             * Reset
             * @default false
             */
            reset: boolean;
        };
        /**
         * RequestPaceOut
         * @description Inference traffic through all frontends: request rates of the last ten seconds, response times of a minute.
         */
        RequestPaceOut: {
            /**
             * Errors Per S
             * @description Errors that were not caused by the client.
             * @default 0
             */
            errors_per_s: number;
            first_byte_s?: components["schemas"]["QuantilePairOut"];
            inter_token_s?: components["schemas"]["QuantilePairOut"];
            /**
             * Prompt Tokens Per S
             * @default 0
             */
            prompt_tokens_per_s: number;
            queue_s?: components["schemas"]["QuantilePairOut"];
            /**
             * Requests Per S
             * @default 0
             */
            requests_per_s: number;
            /**
             * Tokens Per S
             * @description Output tokens, including those of responses in progress.
             * @default 0
             */
            tokens_per_s: number;
        };
        /**
         * RerankIn
         * @description Body of `POST /v1/rerank`: a query, and documents that a model sorts by relevance.
         */
        RerankIn: {
            /** Documents */
            documents: unknown[];
            /**
             * Model
             * @description The name of a model, or one of its aliases.
             */
            model: string;
            /** Query */
            query: string;
        } & {
            [key: string]: unknown;
        };
        /**
         * ResourceContentOut
         * @description Response of `POST /v1/mcp/resources/{model}/read`: an MCP server's resource as text; binary content in base64.
         */
        ResourceContentOut: {
            /** Content */
            content: string;
            /**
             * Is Base64
             * @default false
             */
            is_base64: boolean;
            /**
             * Mimetype
             * @default
             */
            mimeType: string;
            /** Server */
            server: string;
            /** Uri */
            uri: string;
        };
        /**
         * ResourceReadIn
         * @description Body of `POST /v1/mcp/resources/{model}/read`: the address of the MCP server's resource to read.
         */
        ResourceReadIn: {
            /**
             * Server
             * @description The server that has the resource; empty: the first that lists it.
             * @default
             */
            server: string;
            /** Uri */
            uri: string;
        };
        /**
         * ResponseIn
         * @description Body of `POST /v1/responses`, in the form of OpenAI's Responses API: input for a model to answer.
         */
        ResponseIn: {
            /** Input */
            input: string | {
                [key: string]: unknown;
            }[];
            /**
             * Model
             * @description The name of a model, or one of its aliases.
             */
            model: string;
            /**
             * Stream
             * @description Stream the response as server-sent events.
             * @default false
             */
            stream: boolean;
        } & {
            [key: string]: unknown;
        };
        /**
         * RevisionDiffOut
         * @description Response of `GET /api/models/diff/{name}`: how two saved versions of a model's configuration differ.
         */
        RevisionDiffOut: {
            /** Changes */
            changes: string[];
            /** Model */
            model: string;
            /** New */
            new: number;
            /** Old */
            old: number;
        };
        /**
         * RevisionOut
         * @description An item of `GET /api/models/revisions/{name}`: one saved version of a model's configuration.
         */
        RevisionOut: {
            /**
             * Changes
             * @description Changes against the previous revision.
             */
            changes?: string[];
            /** Config */
            config: {
                [key: string]: unknown;
            };
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Created By */
            created_by: string;
            /**
             * Note
             * @default
             */
            note: string;
            /** Number */
            number: number;
            /** Run Hash */
            run_hash: string;
        };
        /**
         * RollbackIn
         * @description Body of `POST /api/models/rollback/{name}`: the earlier version of the model's configuration to restore.
         */
        RollbackIn: {
            /** Revision */
            revision: number;
        };
        /**
         * RotateIn
         * @description Body of `POST /api/keys/{key_id}/rotate`: how long the old secret of the API key still works.
         */
        RotateIn: {
            /**
             * Grace S
             * @description How long the old secret still works; null: it stops at once.
             */
            grace_s?: number | null;
        };
        /**
         * RouteCandidateOut
         * @description A replica of a model that may get requests, with the numbers by which the frontend picks one.
         */
        RouteCandidateOut: {
            /** Breaker */
            breaker: string;
            /**
             * Capacity
             * @description Number of requests that it works on at the same time.
             */
            capacity: number;
            /**
             * Expected S
             * @description Seconds until it would have served one more request; null: it takes no requests now.
             */
            expected_s: number | null;
            /**
             * Free Bytes
             * @description Free memory of its node; the most free memory wins a tie.
             */
            free_bytes: number;
            /**
             * In Flight
             * @description Requests in flight at the replica, from all frontends.
             */
            in_flight: number;
            /**
             * Is Learnt
             * @description Whether the duration was measured; otherwise it is that of other replicas, or one second.
             */
            is_learnt: boolean;
            /**
             * Is Picked
             * @description Whether it would get the next request.
             */
            is_picked: boolean;
            /**
             * Node
             * @description Name of the node.
             */
            node: string;
            /** Replica Id */
            replica_id: string;
            /**
             * Seconds
             * @description Duration of a response in seconds.
             */
            seconds: number;
            /** Sentence */
            sentence: string;
        };
        /**
         * RoutingExplanationOut
         * @description Response of `POST /api/explain`: the replica that would answer a request for the model now, and why.
         */
        RoutingExplanationOut: {
            /**
             * Answered By
             * @description The frontend that responded. Each frontend decides by its own numbers.
             */
            answered_by: string;
            /**
             * Candidates
             * @description Replicas, in the order in which they would be picked.
             */
            candidates: components["schemas"]["RouteCandidateOut"][];
            /** Left Out */
            left_out?: components["schemas"]["ExcludedReplicaOut"][];
            /**
             * Message
             * @description The decision as a sentence.
             */
            message: string;
            /** Model */
            model: string;
            /**
             * Picked
             * @description Id of the replica; null: the request would wait for its turn or for a load.
             */
            picked: string | null;
            /** Policy */
            policy: string;
            /**
             * Waiting
             * @description Requests that already wait for this model at this frontend.
             */
            waiting: number;
        };
        /**
         * RuleOut
         * @description A rule for one model in responses: on which nodes its replicas may run, and how many there are to be.
         *
         *     `model_name`, `node_selector` and `spread_all` are LocalAI's field names.
         */
        RuleOut: {
            /**
             * Max Replicas
             * @description Maximum number of replicas; 0: no limit.
             */
            max_replicas: number;
            /** Min Replicas */
            min_replicas: number;
            /** Model */
            model: string;
            /**
             * Model Exists
             * @description False: there is no model of this name yet.
             * @default true
             */
            model_exists: boolean;
            /** Model Name */
            model_name: string;
            /** Node Selector */
            node_selector: {
                [key: string]: string;
            };
            /**
             * Route Policy
             * @default
             */
            route_policy: string;
            /** Selector */
            selector: {
                [key: string]: string;
            };
            /**
             * Spread All
             * @description One replica on every matching node.
             */
            spread_all: boolean;
            /**
             * Time Zone
             * @default UTC
             */
            time_zone: string;
            /**
             * Unsatisfiable Ticks
             * @default 0
             */
            unsatisfiable_ticks: number;
            /**
             * Unsatisfiable Until
             * @description The rule cannot be met and is not retried before this time; read only.
             */
            unsatisfiable_until?: string | null;
            /**
             * Warnings
             * @description Parts of the rule that are stored and have no effect yet.
             */
            warnings?: string[];
            /** Windows */
            windows?: {
                [key: string]: unknown;
            }[];
        };
        /**
         * RunArtifactListOut
         * @description Response of `GET /api/runs/{run_id}/artifacts`: the files that tools of the run have made.
         */
        RunArtifactListOut: {
            /** Artifacts */
            artifacts: components["schemas"]["RunArtifactOut"][];
        };
        /**
         * RunArtifactOut
         * @description A file that a tool of a run has made, in responses.
         */
        RunArtifactOut: {
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Expires At */
            expires_at?: string | null;
            /** Id */
            id: string;
            /**
             * Kind
             * @description batch or tool.
             */
            kind: string;
            /** Media Type */
            media_type: string;
            /** Name */
            name: string;
            /**
             * Path
             * @description For `GET /api/agents/{name}/files?path=`, if an agent's tool made it.
             */
            path: string;
            /** Sha256 */
            sha256: string;
            /** Size Bytes */
            size_bytes: number;
        };
        /**
         * RunBudgetsSpec
         * @description Limits (seconds, steps, tool calls, tokens) of one run, which its runner enforces; None: no limit of its own.
         */
        RunBudgetsSpec: {
            /**
             * Steps
             * @default 10
             */
            steps: number | null;
            /** Tokens */
            tokens?: number | null;
            /** Tool Calls */
            tool_calls?: number | null;
            /**
             * Wall S
             * @default 300
             */
            wall_s: number;
        };
        /**
         * RunEventIn
         * @description One entry of a run's trace (text, tool call, usage), as the worker that executes the run sends it.
         */
        RunEventIn: {
            /**
             * At
             * Format: date-time
             */
            at: string;
            /** Data */
            data?: {
                [key: string]: unknown;
            };
            /** Seq */
            seq: number;
            /**
             * Tool
             * @default
             */
            tool: string;
            type: components["schemas"]["RunEventType"];
        };
        /**
         * RunEventOut
         * @description One entry of a run's trace in responses, such as a piece of text or a tool call.
         */
        RunEventOut: {
            /**
             * At
             * Format: date-time
             */
            at: string;
            /** Data */
            data?: {
                [key: string]: unknown;
            };
            /** Seq */
            seq: number;
            /**
             * Tool
             * @default
             */
            tool: string;
            /**
             * Type
             * @description status, step, reasoning, content, tool_call, tool_result, approval_requested, approval_resolved, usage, compacted, retried or end.
             */
            type: string;
        };
        /**
         * RunEventsIn
         * @description Body of `POST /api/node/{node_id}/runs/{run_id}/events`: new entries of a run's trace from its worker.
         *
         *     Without any entry the request is a sign of life.
         */
        RunEventsIn: {
            /** Boot Id */
            boot_id?: string | null;
            /** Events */
            events?: components["schemas"]["RunEventIn"][];
            /**
             * Job Id
             * @default
             */
            job_id: string;
        };
        /**
         * RunEventsOut
         * @description Response of `POST /api/node/{node_id}/runs/{run_id}/events`: up to which entry the run's trace is stored.
         *
         *     It also carries news for the worker, such as decisions about tool calls.
         */
        RunEventsOut: {
            /** Decisions */
            decisions?: {
                [key: string]: components["schemas"]["ApprovalDecision"];
            };
            /** Last Seq */
            last_seq: number;
            /**
             * Must Stop
             * @default false
             */
            must_stop: boolean;
        };
        /**
         * RunEventType
         * @description Names the kinds of entries in the trace of a run, such as text and tool calls.
         * @enum {string}
         */
        RunEventType: "status" | "step" | "reasoning" | "content" | "tool_call" | "tool_result" | "approval_requested" | "approval_resolved" | "usage" | "compacted" | "retried" | "end";
        /**
         * RunFileIn
         * @description Body of `POST /api/node/{node_id}/runs/{run_id}/result-files`: a worker has sent a file that belongs to a run.
         */
        RunFileIn: {
            /** Boot Id */
            boot_id?: string | null;
            /**
             * Folder
             * @default export
             */
            folder: string;
            /**
             * Job Id
             * @default
             */
            job_id: string;
            /**
             * Path
             * @default file
             */
            path: string;
            /** Sha256 */
            sha256?: string | null;
        };
        /**
         * RunFileOut
         * @description Response of `POST /api/node/{node_id}/runs/{run_id}/result-files`: the size of the file that was recorded.
         */
        RunFileOut: {
            /** Size Bytes */
            size_bytes: number;
        };
        /**
         * RunKind
         * @description Names the kind of work that a run does for a person, such as one turn of an LLM agent.
         * @enum {string}
         */
        RunKind: "agent_turn" | "task" | "chat" | "batch" | "skill_sync" | "quantize" | "fine_tune" | "fine_tune_export" | "ingest";
        /**
         * RunListOut
         * @description Response of `GET /api/runs`: a page of runs, newest first.
         */
        RunListOut: {
            /**
             * Next
             * @description Pass as `before` to get the next page; absent at the end.
             */
            next?: string | null;
            /** Runs */
            runs: components["schemas"]["RunOut"][];
        };
        /**
         * RunMemoryIn
         * @description Body with which the worker of a turn stores what the agent wants to remember.
         */
        RunMemoryIn: {
            /** Boot Id */
            boot_id?: string | null;
            /**
             * Call Id
             * @default
             */
            call_id: string;
            /**
             * Job Id
             * @default
             */
            job_id: string;
            /**
             * Text
             * @default
             */
            text: string;
        };
        /**
         * RunMemoryOut
         * @description Response to a memory that was stored: the name of its entry.
         */
        RunMemoryOut: {
            /** Entry */
            entry: string;
        };
        /**
         * RunningProcessIn
         * @description One running engine process, in the report that its worker sends to a frontend.
         */
        RunningProcessIn: {
            /**
             * Address
             * @default
             */
            address: string;
            /** Backend */
            backend: string;
            /**
             * Engine Key
             * @default
             */
            engine_key: string;
            /**
             * Key
             * @description model#replica
             */
            key: string;
            /** Model */
            model: string;
            /**
             * Operation Id
             * @default
             */
            operation_id: string;
            /**
             * Pid
             * @default 0
             */
            pid: number;
            /** Ram Bytes */
            ram_bytes?: number | null;
            /** Replica */
            replica: number;
            /**
             * Restarts
             * @default 0
             */
            restarts: number;
            /**
             * Revision
             * @description Run hash of its load; empty if it was started by hand.
             * @default
             */
            revision: string;
            /**
             * State
             * @description starting, ready, unhealthy or backing_off.
             * @default ready
             */
            state: string;
            /**
             * Threads
             * @default 1
             */
            threads: number;
            /**
             * Ticket
             * @description The ticket of its load; an unregistered process without one is stopped.
             * @default
             */
            ticket: string;
            /**
             * Version
             * @default
             */
            version: string;
            /** Vram Bytes */
            vram_bytes?: number | null;
        };
        /**
         * RunOptionsSpec
         * @description Options of one run for the loop that alternates between the model and its tool calls.
         */
        RunOptionsSpec: {
            /**
             * Compaction Tokens
             * @default 4096
             */
            compaction_tokens: number;
            /**
             * Loop Detection
             * @default 5
             */
            loop_detection: number;
            /**
             * Max Attempts
             * @default 2
             */
            max_attempts: number;
            /** Max Tokens */
            max_tokens?: number | null;
            /** Model Settings */
            model_settings?: {
                [key: string]: unknown;
            };
            /** Response Schema */
            response_schema?: {
                [key: string]: unknown;
            } | null;
            /**
             * Strips Thinking
             * @default true
             */
            strips_thinking: boolean;
            /** Temperature */
            temperature?: number | null;
            /**
             * Tool Choice
             * @default auto
             * @enum {string}
             */
            tool_choice: "auto" | "required";
            /**
             * Tool Mode
             * @default auto
             * @enum {string}
             */
            tool_mode: "auto" | "native" | "guided";
        };
        /**
         * RunOut
         * @description One run in responses: work on behalf of a person, such as a turn of an LLM agent or a job of a task.
         */
        RunOut: {
            /** Agent Id */
            agent_id?: string | null;
            /** Approvals */
            approvals?: components["schemas"]["PendingApprovalOut"][];
            /**
             * Attempt
             * @description How often a worker has begun it.
             */
            attempt: number;
            /**
             * Content
             * @description The answer, once the run has completed. Lists cut it after 4,000 characters.
             * @default
             */
            content: string;
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Error Code */
            error_code?: string | null;
            /** Error Text */
            error_text?: string | null;
            /** Finished At */
            finished_at?: string | null;
            /** Id */
            id: string;
            /**
             * Kind
             * @description agent_turn, task, chat, batch or quantize.
             */
            kind: string;
            /**
             * Last Seq
             * @description The number of entries in the trace.
             */
            last_seq: number;
            /**
             * Message
             * @description A sentence about the state.
             */
            message: string;
            /**
             * Node
             * @description The node that has or had it.
             * @default
             */
            node: string;
            /** Owner Name */
            owner_name: string;
            /**
             * Parent Id
             * @description The run that started this one as a tool.
             */
            parent_id?: string | null;
            /**
             * Reason
             * @description Why the loop ended: answer, steps, tool_calls, tokens, loop, …
             * @default
             */
            reason: string;
            /** Started At */
            started_at?: string | null;
            /**
             * State
             * @description queued, leased, running, waiting_approval, completed, failed, cancelled or lost.
             */
            state: string;
            /**
             * Subject
             * @description The name of the agent, task or model.
             */
            subject: string;
            /** Task Id */
            task_id?: string | null;
            /** Thread Id */
            thread_id?: string | null;
            /**
             * Trigger
             * @description api, manual, cron, agent or schedule.
             */
            trigger: string;
            usage: components["schemas"]["RunUsageOut"];
        };
        /**
         * RunSearchIn
         * @description Body with which the worker of a turn searches the collection of its agent.
         */
        RunSearchIn: {
            /** Boot Id */
            boot_id?: string | null;
            /**
             * Embedding
             * @default
             */
            embedding: string;
            /**
             * Job Id
             * @default
             */
            job_id: string;
            /**
             * Query
             * @default
             */
            query: string;
        };
        /**
         * RunSearchOut
         * @description Response to the search of a turn: results with their files.
         */
        RunSearchOut: {
            /** Results */
            results?: {
                [key: string]: unknown;
            }[];
        };
        /**
         * RunSpec
         * @description Specification of one run, such as a turn of an LLM agent: everything that a runner process needs for it.
         */
        RunSpec: {
            /** Agents */
            agents?: components["schemas"]["CallableAgentSpec"][];
            /** Base Urls */
            base_urls?: string[];
            budgets?: components["schemas"]["RunBudgetsSpec"];
            /** Client Tools */
            client_tools?: {
                [key: string]: unknown;
            }[];
            /** Extra */
            extra?: {
                [key: string]: unknown;
            };
            /** History */
            history?: {
                [key: string]: unknown;
            }[];
            /**
             * Instructions
             * @default
             */
            instructions: string;
            /** Kind */
            kind: string;
            /** Mcp Servers */
            mcp_servers?: components["schemas"]["McpServerSpec"][];
            /** Messages */
            messages?: {
                [key: string]: unknown;
            }[];
            /** Model */
            model: string;
            options?: components["schemas"]["RunOptionsSpec"];
            /**
             * Repo Password
             * @default
             */
            repo_password: string;
            /** Run Id */
            run_id: string;
            /**
             * Session Key
             * @default
             */
            session_key: string;
            /** Skills */
            skills?: components["schemas"]["SkillSpec"][];
            /**
             * Ticket
             * @default
             */
            ticket: string;
            /** Tool Rules */
            tool_rules?: {
                [key: string]: "auto" | "ask" | "deny";
            };
        };
        /**
         * RunTraceOut
         * @description Response of `GET /api/runs/{run_id}/trace`: entries of the run's trace, in order.
         */
        RunTraceOut: {
            /** Events */
            events: components["schemas"]["RunEventOut"][];
            /**
             * Has More
             * @default false
             */
            has_more: boolean;
        };
        /**
         * RunUsageOut
         * @description Tokens, model calls and tool calls that a run has used.
         */
        RunUsageOut: {
            /**
             * Completion Tokens
             * @default 0
             */
            completion_tokens: number;
            /**
             * Prompt Tokens
             * @default 0
             */
            prompt_tokens: number;
            /**
             * Steps
             * @description Calls of the model.
             * @default 0
             */
            steps: number;
            /**
             * Tool Calls
             * @default 0
             */
            tool_calls: number;
        };
        /**
         * RunWorkOut
         * @description Response of `GET /api/node/{node_id}/runs/{run_id}`: what the worker that holds a run needs to execute it.
         */
        RunWorkOut: {
            /**
             * Attempt
             * @default 1
             */
            attempt: number;
            /** Job Id */
            job_id: string;
            /**
             * Last Seq
             * @default 0
             */
            last_seq: number;
            spec: components["schemas"]["RunSpec"];
        };
        /**
         * SavedModelOut
         * @description Response to saving or deleting a model's configuration: what changed.
         *
         *     `config_revision` and `pending_cleanup` are LocalAI's fields.
         */
        SavedModelOut: {
            /**
             * Changes
             * @description One line for each changed setting; none: no new revision.
             */
            changes?: string[];
            /**
             * Config Revision
             * @description Run hash of the configuration.
             */
            config_revision: string;
            /**
             * Created
             * @default false
             */
            created: boolean;
            /**
             * Message
             * @default
             */
            message: string;
            /** Name */
            name: string;
            /**
             * Pending Cleanup
             * @description Replicas of the old revision are being stopped.
             * @default false
             */
            pending_cleanup: boolean;
            /** Revision */
            revision: number;
            /**
             * Stopped
             * @description Number of replicas that are stopped.
             * @default 0
             */
            stopped: number;
            /** Warnings */
            warnings?: string[];
        };
        /**
         * SchedulePreviewOut
         * @description Response that explains the cron pattern of a task: in words, and with its next times.
         */
        SchedulePreviewOut: {
            /**
             * Cron
             * @description The pattern as it is stored: descriptors such as @daily are written out.
             */
            cron: string;
            /**
             * Next Runs
             * @description Its next times on the clock of its zone, the earliest first.
             */
            next_runs: string[];
            /** Time Zone */
            time_zone: string;
            /**
             * Words
             * @description The pattern in words, `every day at 09:00`; the pattern itself if that is shorter.
             */
            words: string;
        };
        /**
         * Scope
         * @description Names what an API key or a user may do, such as admin or inference. Each scope includes those after it.
         * @enum {string}
         */
        Scope: "admin" | "operate" | "infer";
        /**
         * SecretIn
         * @description Body of `PUT /api/secrets/{name}`: the value of a secret (a password or token) to store.
         */
        SecretIn: {
            /**
             * Value
             * @description Text of 1 byte to 64 KiB, without NUL. It is never returned.
             */
            value: string;
        };
        /**
         * SecretOut
         * @description A stored secret (a password or token) in responses: its name and times, never its value.
         */
        SecretOut: {
            /**
             * Changed By
             * @description Who set its value last.
             */
            changed_by: string;
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /**
             * Id
             * @description Id of the secret in events.
             */
            id: string;
            /**
             * Last Used At
             * @description When its value was last used, to about a minute; null: never.
             */
            last_used_at: string | null;
            /** Name */
            name: string;
            /**
             * Reference
             * @description How a configuration refers to it.
             */
            reference: string;
            /**
             * Updated At
             * Format: date-time
             * @description When its value was last set.
             */
            updated_at: string;
        };
        /**
         * SecretScope
         * @description Names which stored secret a name means: the owner's own, or the one that admins keep for the cluster.
         * @enum {string}
         */
        SecretScope: "own" | "cluster";
        /**
         * SettingOut
         * @description One setting of a frontend with its value, where the value came from, and secrets masked.
         */
        SettingOut: {
            /**
             * Is Live
             * @description Whether it can be changed while frontends run: `POST /api/settings`, unless `source` wins.
             * @default false
             */
            is_live: boolean;
            /**
             * Is Secret
             * @description The value is a secret and never shown.
             */
            is_secret: boolean;
            /** Name */
            name: string;
            /**
             * Section
             * @description Section of the setting.
             */
            section: string;
            /**
             * Sentence
             * @description Description of the setting.
             */
            sentence: string;
            /**
             * Source
             * @description Source of the value.
             */
            source: string;
            /**
             * Value
             * @description Value as it would be written; null: not set, and there is no default.
             */
            value: string | null;
        };
        /**
         * SettingsOut
         * @description Response of `GET /api/settings`: all settings that the responding frontend runs with.
         */
        SettingsOut: {
            /**
             * Answered By
             * @description The frontend that these settings belong to; other frontends may have different ones.
             */
            answered_by: string;
            /** Settings */
            settings: components["schemas"]["SettingOut"][];
        };
        /**
         * SkillContentOut
         * @description Response of `GET /api/node/{node_id}/runs/{run_id}/skills/content`: the bytes of a file of a skill.
         */
        SkillContentOut: {
            /** Content */
            content: string;
        };
        /**
         * SkillDetailOut
         * @description A skill with its text and the names of its files, as `GET /api/agents/skills/{name}` shows it.
         */
        SkillDetailOut: {
            /**
             * Allowed Tools
             * @default
             */
            allowed_tools: string;
            /**
             * Commit
             * @description The commit of the repository that it is from.
             * @default
             */
            commit: string;
            /**
             * Compatibility
             * @default
             */
            compatibility: string;
            /**
             * Content
             * @description The instructions, without the front matter.
             */
            content: string;
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /**
             * Created By
             * @default
             */
            created_by: string;
            /** Description */
            description: string;
            /**
             * Document
             * @description The whole SKILL.md.
             */
            document: string;
            /**
             * File Count
             * @default 0
             */
            file_count: number;
            /** Files */
            files?: components["schemas"]["SkillFileOut"][];
            /**
             * Is Own
             * @default true
             */
            is_own: boolean;
            /**
             * License
             * @default
             */
            license: string;
            /** Metadata */
            metadata?: {
                [key: string]: string;
            };
            /** Name */
            name: string;
            /**
             * Owner
             * @description user:… or key:…
             */
            owner: string;
            /**
             * Owner Name
             * @default
             */
            owner_name: string;
            /**
             * Read Only
             * @description It is changed in its repository alone.
             * @default false
             */
            read_only: boolean;
            /** Repo Id */
            repo_id?: string | null;
            /**
             * Repo Url
             * @default
             */
            repo_url: string;
            /**
             * Revision
             * @default 1
             */
            revision: number;
            /**
             * Sha256
             * @description Of the document.
             */
            sha256: string;
            /**
             * Shared
             * @default false
             */
            shared: boolean;
            /**
             * Size Bytes
             * @description With its files.
             * @default 0
             */
            size_bytes: number;
            /**
             * Source
             * @description inline: written here; git: from a repository.
             */
            source: string;
            /**
             * Updated At
             * Format: date-time
             */
            updated_at: string;
        };
        /**
         * SkillFileOut
         * @description One file of a skill beside its `SKILL.md`.
         */
        SkillFileOut: {
            /** Path */
            path: string;
            /** Sha256 */
            sha256: string;
            /** Size Bytes */
            size_bytes: number;
        };
        /**
         * SkillFileSpec
         * @description One file of a skill that a run may read: its path in the skill, and the hash by which its bytes are fetched.
         */
        SkillFileSpec: {
            /** Path */
            path: string;
            /** Sha256 */
            sha256: string;
            /**
             * Size Bytes
             * @default 0
             */
            size_bytes: number;
        };
        /**
         * SkillImportOut
         * @description Response of `POST /api/agents/skills/import`: the skills that the archive had.
         */
        SkillImportOut: {
            /** Items */
            items: components["schemas"]["SkillDetailOut"][];
        };
        /**
         * SkillIn
         * @description Body that creates or replaces a skill: its fields, or its whole `SKILL.md` as `document`.
         */
        SkillIn: {
            /**
             * Allowed Tools
             * @description Names of tools that the skill uses, divided by spaces.
             * @default
             */
            allowed_tools: string | string[];
            /**
             * Compatibility
             * @description What the skill needs, such as programs.
             * @default
             */
            compatibility: string;
            /**
             * Content
             * @description The instructions, in Markdown.
             * @default
             */
            content: string;
            /**
             * Description
             * @description What the skill does and when to use it; agents choose skills by it.
             * @default
             */
            description: string;
            /**
             * Document
             * @description The whole SKILL.md: front matter and instructions, in place of the other fields.
             */
            document?: string | null;
            /**
             * License
             * @default
             */
            license: string;
            /** Metadata */
            metadata?: {
                [key: string]: string;
            };
            /**
             * Name
             * @description Up to 64 lower-case letters, digits and single hyphens. Another one renames the skill.
             * @default
             */
            name: string;
            /**
             * Shared
             * @description Every user's agents may use it. Set by admins; absent: as before.
             */
            shared?: boolean | null;
        };
        /**
         * SkillLimitsOut
         * @description Response of `GET /api/agents/skills/config`: what skills may have, and what an owner may keep.
         */
        SkillLimitsOut: {
            /** Archive Bytes Max */
            archive_bytes_max: number;
            /**
             * Bytes Max
             * @description Of all skills of one owner.
             */
            bytes_max: number;
            /**
             * Document Bytes Max
             * @description Of a SKILL.md.
             */
            document_bytes_max: number;
            /** File Bytes Max */
            file_bytes_max: number;
            /** Files Max */
            files_max: number;
            /**
             * Formats
             * @description Of archives that can be imported.
             */
            formats: string[];
            /**
             * Repos Max
             * @description Repositories of one owner.
             */
            repos_max: number;
            /** Skill Bytes Max */
            skill_bytes_max: number;
            /**
             * Skills Max
             * @description Skills of one owner.
             */
            skills_max: number;
        };
        /**
         * SkillOut
         * @description A skill as `GET /api/agents/skills` lists it, without its text and the names of its files.
         */
        SkillOut: {
            /**
             * Allowed Tools
             * @default
             */
            allowed_tools: string;
            /**
             * Commit
             * @description The commit of the repository that it is from.
             * @default
             */
            commit: string;
            /**
             * Compatibility
             * @default
             */
            compatibility: string;
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /**
             * Created By
             * @default
             */
            created_by: string;
            /** Description */
            description: string;
            /**
             * File Count
             * @default 0
             */
            file_count: number;
            /**
             * Is Own
             * @default true
             */
            is_own: boolean;
            /**
             * License
             * @default
             */
            license: string;
            /** Metadata */
            metadata?: {
                [key: string]: string;
            };
            /** Name */
            name: string;
            /**
             * Owner
             * @description user:… or key:…
             */
            owner: string;
            /**
             * Owner Name
             * @default
             */
            owner_name: string;
            /**
             * Read Only
             * @description It is changed in its repository alone.
             * @default false
             */
            read_only: boolean;
            /** Repo Id */
            repo_id?: string | null;
            /**
             * Repo Url
             * @default
             */
            repo_url: string;
            /**
             * Revision
             * @default 1
             */
            revision: number;
            /**
             * Shared
             * @default false
             */
            shared: boolean;
            /**
             * Size Bytes
             * @description With its files.
             * @default 0
             */
            size_bytes: number;
            /**
             * Source
             * @description inline: written here; git: from a repository.
             */
            source: string;
            /**
             * Updated At
             * Format: date-time
             */
            updated_at: string;
        };
        /**
         * SkillRepoIn
         * @description Body that adds or changes a git repository of skills.
         */
        SkillRepoIn: {
            /**
             * Branch
             * @description Empty: the one that the repository calls its own.
             * @default
             */
            branch: string;
            /**
             * Secret
             * @description For a private repository: a reference to the secret with its token, as in secret:NAME.
             * @default
             */
            secret: string;
            /**
             * Shared
             * @description Every user's agents may use its skills. Set by admins.
             * @default false
             */
            shared: boolean;
            /**
             * Sync Interval
             * @description How often it is synced by itself: minutes, or a duration such as 1h. Absent: it is not.
             */
            sync_interval?: number | string | null;
            /**
             * Url
             * @description http://, https:// or git@host:path, which is read over HTTPS.
             */
            url: string;
            /**
             * Username
             * @description The user name beside the secret. Empty: git, which most hosts take beside a token.
             * @default
             */
            username: string;
        };
        /**
         * SkillRepoOut
         * @description A git repository that skills come from.
         */
        SkillRepoOut: {
            /**
             * Branch
             * @default
             */
            branch: string;
            /**
             * Commit
             * @description The commit whose skills are stored; empty before the first sync.
             * @default
             */
            commit: string;
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /**
             * Enabled
             * @default true
             */
            enabled: boolean;
            /** Id */
            id: string;
            /** Next Sync At */
            next_sync_at?: string | null;
            /** Owner */
            owner: string;
            /**
             * Owner Name
             * @default
             */
            owner_name: string;
            /**
             * Problem
             * @description What kept the last sync, or a skill of it, from being stored.
             * @default
             */
            problem: string;
            /**
             * Run Id
             * @description The run of the last sync.
             * @default
             */
            run_id: string;
            /**
             * Secret
             * @description The reference to the secret that a worker signs in with.
             * @default
             */
            secret: string;
            /**
             * Shared
             * @default false
             */
            shared: boolean;
            /**
             * Skills
             * @description How many of its skills are stored.
             * @default 0
             */
            skills: number;
            /**
             * Sync Interval
             * @description Minutes between syncs; null: no sync by itself.
             */
            sync_interval?: number | null;
            /** Synced At */
            synced_at?: string | null;
            /**
             * Updated At
             * Format: date-time
             */
            updated_at: string;
            /** Url */
            url: string;
            /**
             * Username
             * @default
             */
            username: string;
        };
        /**
         * SkillRepoToggleIn
         * @description Body of `POST /api/agents/git-repos/{id}/toggle`.
         */
        SkillRepoToggleIn: {
            /**
             * Enabled
             * @description Absent: the other state.
             */
            enabled?: boolean | null;
        };
        /**
         * SkillSpec
         * @description A skill that the turn of an LLM agent is offered. `SKILL.md` is the first of its files.
         */
        SkillSpec: {
            /**
             * Description
             * @default
             */
            description: string;
            /** Files */
            files?: components["schemas"]["SkillFileSpec"][];
            /** Name */
            name: string;
        };
        /**
         * SkillSyncIn
         * @description Body of `POST /api/node/{node_id}/runs/{run_id}/skills`: the skills that a sync has found in a git repository.
         */
        SkillSyncIn: {
            /**
             * Archive
             * @default
             */
            archive: string;
            /** Boot Id */
            boot_id?: string | null;
            /**
             * Commit
             * @default
             */
            commit: string;
            /**
             * Is Unchanged
             * @default false
             */
            is_unchanged: boolean;
            /**
             * Job Id
             * @default
             */
            job_id: string;
            /** Problems */
            problems?: string[];
        };
        /**
         * SkillSyncOut
         * @description Response of `POST /api/node/{node_id}/runs/{run_id}/skills`: how many skills the repository has now.
         */
        SkillSyncOut: {
            /**
             * Problem
             * @default
             */
            problem: string;
            /** Skills */
            skills: number;
        };
        /**
         * SkippedNodeOut
         * @description One node in a dry run of an engine backend operation that the operation would leave out, and why.
         */
        SkippedNodeOut: {
            /** Node Id */
            node_id: string;
            /** Node Name */
            node_name: string;
            /** Reason */
            reason: string;
        };
        /**
         * SpeechIn
         * @description Body of `POST /v1/audio/speech`, in OpenAI's form: a text that a model speaks.
         */
        SpeechIn: {
            /**
             * Input
             * @description Text to speak.
             */
            input: string;
            /**
             * Model
             * @description The name of a model, or one of its aliases.
             */
            model: string;
        } & {
            [key: string]: unknown;
        };
        /**
         * StartedEngineOut
         * @description Response of `POST /api/nodes/{node}/backends/start`: the worker's job that starts the engine process.
         */
        StartedEngineOut: {
            /** Jobid */
            jobID: string;
            /**
             * Key
             * @description The name of the process: model#replica.
             */
            key: string;
            /** Message */
            message: string;
            /** State */
            state: string;
        };
        /**
         * StartEngineIn
         * @description Body of `POST /api/nodes/{node}/backends/start`: an engine process to start on that node.
         *
         *     Without a model the engine is only started to see whether its backend works.
         */
        StartEngineIn: {
            /** Backend */
            backend: string;
            /**
             * Model
             * @default
             */
            model: string;
            /**
             * Model Path
             * @default
             */
            model_path: string;
            /** Options */
            options?: {
                [key: string]: string;
            };
            /**
             * Replica
             * @default 0
             */
            replica: number;
            /** Threads */
            threads?: number | null;
        };
        /**
         * StopEnginesIn
         * @description Body of `POST /api/nodes/{node}/backends/stop`: which engine processes to stop.
         *
         *     Exactly one of `backend`, `key` and `all` is set.
         */
        StopEnginesIn: {
            /**
             * All
             * @description Stop all engines on the node.
             * @default false
             */
            all: boolean;
            /**
             * Backend
             * @description All processes of this backend.
             * @default
             */
            backend: string;
            /**
             * Force
             * @default false
             */
            force: boolean;
            /**
             * Key
             * @description One process: model#replica.
             * @default
             */
            key: string;
        };
        /**
         * StoppedEnginesOut
         * @description Response of `POST /api/nodes/{node}/backends/stop`: the engine processes that ended, and those that could not.
         */
        StoppedEnginesOut: {
            /** Message */
            message: string;
            /**
             * Stopped
             * @description Processes that have ended.
             */
            stopped: string[];
            /**
             * Survivors
             * @description Processes that could not be stopped and still run.
             */
            survivors?: string[];
        };
        /**
         * StoredFileOut
         * @description One file of a model that was fetched into the cluster, with its checksum and size.
         */
        StoredFileOut: {
            /** Path */
            path: string;
            /** Sha256 */
            sha256: string;
            /** Size Bytes */
            size_bytes: number;
        };
        /**
         * StrategyIn
         * @description The rollout of an operation over its nodes: how many change at a time, and what happens after a failure.
         */
        StrategyIn: {
            /**
             * Deadline
             * @description How long the change may stay pending on offline nodes: 90s, 30m, 1h, 7d. Absent: no limit.
             */
            deadline?: string | null;
            /**
             * Rollback
             * @description After a failure, roll changed nodes back.
             * @default false
             */
            rollback: boolean;
            /**
             * Stop On Failure
             * @description Start no further wave after a failure.
             * @default false
             */
            stop_on_failure: boolean;
            /**
             * Waves
             * @description Number of nodes in each wave; the last number repeats. Empty: all at once.
             */
            waves?: number[];
        };
        /**
         * SurvivingEngineIn
         * @description An engine process that outlived the worker process which started it, reported at the next registration.
         */
        SurvivingEngineIn: {
            /** Address */
            address: string;
            /** Model */
            model: string;
            /** Replica */
            replica: number;
            /**
             * Revision
             * @description The run hash of its load.
             */
            revision: string;
        };
        /**
         * TargetDetailOut
         * @description One node of an operation with all details, such as the build it gets and its errors.
         */
        TargetDetailOut: {
            /**
             * Attempt
             * @default 0
             */
            attempt: number;
            /**
             * Begun
             * @description Whether the command was sent to its worker.
             * @default true
             */
            begun: boolean;
            build?: components["schemas"]["BuildOut"] | null;
            /** Contacted At */
            contacted_at?: string | null;
            /** Current */
            current?: number | null;
            /** Error */
            error?: string | null;
            /** Error Code */
            error_code?: string | null;
            /**
             * File Name
             * @default
             */
            file_name: string;
            /** Finished At */
            finished_at?: string | null;
            /**
             * Generation
             * @default 0
             */
            generation: number;
            /** Heard At */
            heard_at?: string | null;
            /**
             * Is Rollback
             * @default false
             */
            is_rollback: boolean;
            /**
             * Job Id
             * @description Id of the worker's job.
             */
            job_id: string;
            /** Node Id */
            node_id: string;
            /** Node Name */
            node_name: string;
            /**
             * Percentage
             * @default 0
             */
            percentage: number;
            /** Phase */
            phase?: string | null;
            /**
             * Previous Version
             * @default
             */
            previous_version: string;
            /**
             * State
             * @description queued, working, unconfirmed, success, error, cancelled, superseded or skipped
             */
            state: string;
            /**
             * Status
             * @description LocalAI's word: queued, downloading, running_on_worker, success, error; otherwise as `state`.
             */
            status: string;
            /**
             * Stop Wanted
             * @description The worker has not got the command to stop yet.
             * @default false
             */
            stop_wanted: boolean;
            /** Total */
            total?: number | null;
            /**
             * Version
             * @description The version that the node gets.
             * @default
             */
            version: string;
            /**
             * Wave
             * @default 0
             */
            wave: number;
        };
        /**
         * TargetOut
         * @description One node of an operation, with the progress of the operation on that node.
         */
        TargetOut: {
            /**
             * Attempt
             * @default 0
             */
            attempt: number;
            /**
             * Begun
             * @description Whether the command was sent to its worker.
             * @default true
             */
            begun: boolean;
            /** Current */
            current?: number | null;
            /** Error */
            error?: string | null;
            /** Error Code */
            error_code?: string | null;
            /**
             * File Name
             * @default
             */
            file_name: string;
            /** Finished At */
            finished_at?: string | null;
            /** Node Id */
            node_id: string;
            /** Node Name */
            node_name: string;
            /**
             * Percentage
             * @default 0
             */
            percentage: number;
            /** Phase */
            phase?: string | null;
            /**
             * Previous Version
             * @default
             */
            previous_version: string;
            /**
             * State
             * @description queued, working, unconfirmed, success, error, cancelled, superseded or skipped
             */
            state: string;
            /**
             * Status
             * @description LocalAI's word: queued, downloading, running_on_worker, success, error; otherwise as `state`.
             */
            status: string;
            /** Total */
            total?: number | null;
            /**
             * Version
             * @description The version that the node gets.
             * @default
             */
            version: string;
            /**
             * Wave
             * @default 0
             */
            wave: number;
        };
        /**
         * TargetsIn
         * @description Body that selects the nodes of an engine backend operation, such as a removal, and how it rolls out over them.
         */
        TargetsIn: {
            /**
             * Nodes
             * @description Names or ids of nodes. Absent: all suitable nodes.
             */
            nodes?: string[] | null;
            strategy?: components["schemas"]["StrategyIn"];
        };
        /**
         * TaskBudgetsBody
         * @description Limits of each job (one execution) of a task, such as tokens and seconds.
         */
        TaskBudgetsBody: {
            /**
             * Steps
             * @description Calls of the model.
             * @default 3
             */
            steps: number | null;
            /** Tokens */
            tokens?: number | null;
            /** Tool Calls */
            tool_calls?: number | null;
            /**
             * Wall S
             * @description Absent: `run_timeout_s` of the frontends.
             */
            wall_s?: number | null;
        };
        /**
         * TaskCatchUp
         * @description Names what happens with cron times of a task that passed while no frontend ran.
         * @enum {string}
         */
        TaskCatchUp: "none" | "once";
        /**
         * TaskCreatedOut
         * @description Response of `POST /api/agent/tasks`: the id of the task that was created.
         */
        TaskCreatedOut: {
            /** Id */
            id: string;
            /**
             * Warnings
             * @description Which fields were ignored.
             */
            warnings?: string[];
        };
        /**
         * TaskIn
         * @description Body that creates or replaces a task, a prompt template of a user that runs on demand or by cron.
         *
         *     The body of a `GET` is accepted, too. Fields of LocalAI that have no effect here are left out, and named in the
         *     warnings of the response.
         */
        TaskIn: {
            budgets?: components["schemas"]["TaskBudgetsBody"];
            /**
             * @description What happens to cron times that passed while no frontend ran.
             * @default none
             */
            catch_up: components["schemas"]["TaskCatchUp"];
            /**
             * Cron
             * @description Five fields, or @hourly, @daily, …; empty: only on request.
             * @default
             */
            cron: string;
            /**
             * Cron Parameters
             * @description Parameters of jobs that cron starts.
             */
            cron_parameters?: {
                [key: string]: unknown;
            };
            /**
             * Description
             * @default
             */
            description: string;
            /**
             * Enabled
             * @description A disabled task does not run, neither by cron nor on request.
             * @default true
             */
            enabled: boolean;
            /**
             * Labels
             * @description Labels that the node of a job must have.
             */
            labels?: {
                [key: string]: string;
            };
            /**
             * Max Attempts
             * @description How often the model may replace an answer that cannot be used.
             * @default 3
             */
            max_attempts: number;
            /**
             * Mcp Servers
             * @description MCP servers at addresses, whose tools jobs may use beside those of their model. An empty list in the body: not those of the model.
             */
            mcp_servers?: components["schemas"]["McpServerIn"][];
            /**
             * Mcp Stdio Servers
             * @description Names of MCP servers that an admin has declared. An empty list: as above.
             */
            mcp_stdio_servers?: string[];
            /**
             * Model
             * @description Name or alias of a model.
             */
            model: string;
            /** Multimedia Sources */
            multimedia_sources?: components["schemas"]["MediaSourceBody"][];
            /**
             * Name
             * @description Unique among your tasks.
             */
            name: string;
            /**
             * @description What a cron time does while an earlier cron job is open.
             * @default skip
             */
            overlap: components["schemas"]["TaskOverlap"];
            /**
             * Prompt
             * @description A template: {{ name }} is replaced by the parameter of that name.
             */
            prompt: string;
            /**
             * Time Zone
             * @description IANA name of the zone that the pattern is meant in.
             * @default UTC
             */
            time_zone: string;
            /**
             * Webhook Secret
             * @description Reference to the secret that webhooks are signed with; empty: the task's own key.
             * @default
             */
            webhook_secret: string;
            /** Webhooks */
            webhooks?: components["schemas"]["TaskWebhookBody"][];
        };
        /**
         * TaskOut
         * @description A task in responses: a user's named prompt template, bound to a model, with its cron pattern and webhooks.
         */
        TaskOut: {
            budgets: components["schemas"]["TaskBudgetsBody"];
            /** Catch Up */
            catch_up: string;
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Created By */
            created_by: string;
            /**
             * Cron
             * @default
             */
            cron: string;
            /**
             * Cron Note
             * @description Why the last cron time started nothing; empty if it did.
             * @default
             */
            cron_note: string;
            /** Cron Parameters */
            cron_parameters?: {
                [key: string]: unknown;
            };
            /**
             * Cron Words
             * @description The pattern in words: `every day at 09:00`.
             * @default
             */
            cron_words: string;
            /**
             * Description
             * @default
             */
            description: string;
            /** Enabled */
            enabled: boolean;
            /** Id */
            id: string;
            /** Labels */
            labels?: {
                [key: string]: string;
            };
            /**
             * Last Run At
             * @description The last cron time that became a job.
             */
            last_run_at?: string | null;
            /** Max Attempts */
            max_attempts: number;
            /** Mcp Servers */
            mcp_servers?: components["schemas"]["McpServerIn"][];
            /** Mcp Stdio Servers */
            mcp_stdio_servers?: string[];
            /** Model */
            model: string;
            /** Multimedia Sources */
            multimedia_sources?: components["schemas"]["MediaSourceBody"][];
            /** Name */
            name: string;
            /**
             * Next Run At
             * @description When cron starts it next; absent: never.
             */
            next_run_at?: string | null;
            /** Overlap */
            overlap: string;
            /**
             * Parameters
             * @description Names that the prompt uses; only for a single task.
             */
            parameters?: string[];
            /** Prompt */
            prompt: string;
            /** Revision */
            revision: number;
            /**
             * Time Zone
             * @default UTC
             */
            time_zone: string;
            /**
             * Updated At
             * Format: date-time
             */
            updated_at: string;
            /**
             * Warnings
             * @description After a change only: which fields were ignored.
             */
            warnings?: string[];
            /**
             * Webhook Secret
             * @default
             */
            webhook_secret: string;
            /** Webhooks */
            webhooks?: components["schemas"]["TaskWebhookBody"][];
        };
        /**
         * TaskOverlap
         * @description Names what a due cron time of a task does while an earlier job of that task is still open.
         * @enum {string}
         */
        TaskOverlap: "skip" | "queue" | "replace";
        /**
         * TaskRunStatus
         * @description Names the state of a task's job in the words of LocalAI.
         * @enum {string}
         */
        TaskRunStatus: "pending" | "running" | "completed" | "failed" | "cancelled";
        /**
         * TaskWebhookBody
         * @description One webhook of a task: the HTTP request that a frontend sends when a job of the task has ended.
         */
        TaskWebhookBody: {
            /**
             * Headers
             * @description Values may refer to secrets: `Bearer secret:NAME`.
             */
            headers?: {
                [key: string]: string;
            };
            /**
             * Method
             * @description POST, PUT or PATCH.
             * @default POST
             */
            method: string;
            /**
             * Payload Template
             * @description The body as a template with job, task, status, result, error, parameters; empty: JSON with them.
             * @default
             */
            payload_template: string;
            /**
             * Url
             * @description http:// or https://, or a reference to a secret that holds it.
             */
            url: string;
        };
        /**
         * ThreadIn
         * @description Body of `POST /api/agents/{name}/threads`: the conversation with an LLM agent to create.
         */
        ThreadIn: {
            /**
             * Title
             * @default
             */
            title: string;
        };
        /**
         * ThreadListOut
         * @description Response of `GET /api/agents/{name}/threads`: conversations with an LLM agent, the one used last first.
         */
        ThreadListOut: {
            /** Threads */
            threads: components["schemas"]["ThreadOut"][];
        };
        /**
         * ThreadMessageOut
         * @description One message in a conversation with an LLM agent: who wrote it, when, and its text.
         */
        ThreadMessageOut: {
            /** Content */
            content?: unknown;
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /**
             * Role
             * @description user, assistant or tool.
             */
            role: string;
            /**
             * Run Id
             * @description The turn that it belongs to.
             */
            run_id?: string | null;
            /** Seq */
            seq: number;
            /** Tool Call Id */
            tool_call_id?: string | null;
            /** Tool Calls */
            tool_calls?: unknown[];
        };
        /**
         * ThreadMessagesOut
         * @description Response of `GET /api/agents/{name}/threads/{thread_id}/messages`: a conversation's messages, in order.
         */
        ThreadMessagesOut: {
            /**
             * Has More
             * @default false
             */
            has_more: boolean;
            /** Messages */
            messages: components["schemas"]["ThreadMessageOut"][];
        };
        /**
         * ThreadOut
         * @description One conversation of a person with an LLM agent, without its messages.
         */
        ThreadOut: {
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Id */
            id: string;
            /**
             * Messages
             * @description How many messages it has.
             */
            messages: number;
            /**
             * Title
             * @description Made from the first message.
             */
            title: string;
            /**
             * Updated At
             * Format: date-time
             */
            updated_at: string;
        };
        /**
         * TokenIn
         * @description Body of `POST /api/tokens`: the join token to create, with which machines register as nodes.
         */
        TokenIn: {
            /**
             * Approves
             * @description Machines that join with it are approved automatically.
             * @default false
             */
            approves: boolean;
            /**
             * Expires In S
             * @description Lifetime in seconds; null: it does not expire.
             * @default 86400
             */
            expires_in_s: number | null;
            /**
             * Max Uses
             * @description How many machines may join with it; null for any number.
             * @default 1
             */
            max_uses: number | null;
            /**
             * Name
             * @default join token
             */
            name: string;
        };
        /**
         * TokenOut
         * @description A join token in responses of `/api/tokens`: its name, uses and expiry, without its secret.
         */
        TokenOut: {
            /** Approves */
            approves: boolean;
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Created By */
            created_by: string;
            /** Expires At */
            expires_at: string | null;
            /** Id */
            id: string;
            /** Max Uses */
            max_uses: number | null;
            /** Name */
            name: string;
            /**
             * Prefix
             * @description The first characters, to tell tokens apart.
             */
            prefix: string;
            /** Revoked At */
            revoked_at: string | null;
            /**
             * State
             * @description active, used_up, expired or revoked
             */
            state: string;
            /** Uses */
            uses: number;
        };
        /**
         * ToolFileIn
         * @description Body of `POST /api/node/{node_id}/runs/{run_id}/files`: a file that a tool of a run made, to be stored.
         */
        ToolFileIn: {
            /** Boot Id */
            boot_id?: string | null;
            /**
             * Content
             * @default
             */
            content: string;
            /**
             * Job Id
             * @default
             */
            job_id: string;
            /**
             * Media Type
             * @default
             */
            media_type: string;
            /**
             * Name
             * @default
             */
            name: string;
        };
        /**
         * ToolFileOut
         * @description Response of `POST /api/node/{node_id}/runs/{run_id}/files`: the stored file, and its path for its owner.
         */
        ToolFileOut: {
            /** Id */
            id: string;
            /** Path */
            path: string;
        };
        /**
         * UnloadIn
         * @description Body of `POST /api/models/{name}/unload`: which replicas of a model to end.
         */
        UnloadIn: {
            /**
             * Delete Files
             * @description Also delete the copies of its files on these nodes. The model stays.
             * @default false
             */
            delete_files: boolean;
            /**
             * Force
             * @description Do not wait for requests in flight.
             * @default false
             */
            force: boolean;
            /**
             * Nodes
             * @description Names or ids of nodes; absent: all nodes.
             */
            nodes?: string[] | null;
        };
        /**
         * UploadedFileOut
         * @description Response of `PUT /api/files/{sha256}`: the model file that was uploaded completely and verified.
         */
        UploadedFileOut: {
            /** Sha256 */
            sha256: string;
            /** Size Bytes */
            size_bytes: number;
        };
        /**
         * UsageFormat
         * @description Names the formats in which `GET /api/usage` returns a usage report.
         * @enum {string}
         */
        UsageFormat: "json" | "csv";
        /**
         * UsageOut
         * @description Response of `GET /api/usage`: the inference requests and tokens of a time, as rows and their total.
         */
        UsageOut: {
            /** By */
            by: string[];
            /**
             * Is Cut
             * @description There are more rows; the CSV form has all of them.
             * @default false
             */
            is_cut: boolean;
            /**
             * Rows
             * @description Rows, sorted by the fields that they are grouped by.
             */
            rows: components["schemas"]["UsageRowOut"][];
            /**
             * Since
             * Format: date-time
             */
            since: string;
            total: components["schemas"]["UsageSumsOut"];
            /**
             * Until
             * @description End of the report; absent: now.
             */
            until?: string | null;
        };
        /**
         * UsageRowOut
         * @description One row of a usage report: the sums of one key, model, user, API call, node or time.
         */
        UsageRowOut: {
            /**
             * At
             * @description Start of the day or hour, in UTC.
             */
            at?: string | null;
            /**
             * Cached Tokens
             * @description Prompt tokens that engines had in their cache.
             */
            cached_tokens: number;
            /** Call */
            call?: string | null;
            /** Completion Tokens */
            completion_tokens: number;
            /**
             * Errors
             * @description Requests that ended with an error.
             */
            errors: number;
            /**
             * Estimated Tokens
             * @description Output tokens that were estimated from stream events, because the engine did not report them.
             */
            estimated_tokens: number;
            /**
             * Key
             * @description The key's name when it was last used.
             */
            key?: string | null;
            /** Key Id */
            key_id?: string | null;
            /** Model */
            model?: string | null;
            /**
             * Node
             * @description Name of the node at that time; empty: no node was reached.
             */
            node?: string | null;
            /** Prompt Tokens */
            prompt_tokens: number;
            /**
             * Requests
             * @description Requests that reached a replica, or failed in the gateway or the engine.
             */
            requests: number;
            /** User */
            user?: string | null;
        };
        /**
         * UsageSumsOut
         * @description Sums of inference requests, errors and tokens in a usage report.
         */
        UsageSumsOut: {
            /**
             * Cached Tokens
             * @description Prompt tokens that engines had in their cache.
             */
            cached_tokens: number;
            /** Completion Tokens */
            completion_tokens: number;
            /**
             * Errors
             * @description Requests that ended with an error.
             */
            errors: number;
            /**
             * Estimated Tokens
             * @description Output tokens that were estimated from stream events, because the engine did not report them.
             */
            estimated_tokens: number;
            /** Prompt Tokens */
            prompt_tokens: number;
            /**
             * Requests
             * @description Requests that reached a replica, or failed in the gateway or the engine.
             */
            requests: number;
        };
        /**
         * UserAgentOut
         * @description An LLM agent of another user as LocalAI's page lists it for admins.
         */
        UserAgentOut: {
            /** Active */
            active: boolean;
            /** Name */
            name: string;
        };
        /**
         * UserAgentsOut
         * @description The LLM agents of one other user as LocalAI's page lists them for admins.
         */
        UserAgentsOut: {
            /** Agents */
            agents: components["schemas"]["UserAgentOut"][];
        };
        /**
         * UserIn
         * @description Body of `POST /api/users`: the user to create.
         */
        UserIn: {
            /** Name */
            name: string;
            /**
             * Password
             * @description Without a password the user can have keys, but cannot sign in with a name.
             */
            password?: string | null;
            /**
             * @description admin: everything; operate: nodes, engines, models, operations; infer: inference only
             * @default infer
             */
            scope: components["schemas"]["Scope"];
        };
        /**
         * UserOut
         * @description A user in responses of `/api/users`, without the password.
         */
        UserOut: {
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /** Created By */
            created_by: string;
            /** Disabled At */
            disabled_at: string | null;
            /** Has Password */
            has_password: boolean;
            /** Id */
            id: string;
            /**
             * Issuer
             * @description The OpenID Connect provider of the user; empty: none.
             */
            issuer: string;
            /** Name */
            name: string;
            /**
             * Scope
             * @description admin: everything; operate: nodes, engines, models, operations; infer: inference only
             */
            scope: string;
        };
        /**
         * UserPatch
         * @description Body of `PATCH /api/users/{user_id}`: the fields of a user to change; a field that is left out stays.
         */
        UserPatch: {
            /**
             * Disabled
             * @description Disabling a user stops their keys and sessions at once.
             */
            disabled?: boolean | null;
            /**
             * Password
             * @description Setting a password ends the sessions of the old one.
             */
            password?: string | null;
            /** @description admin: everything; operate: nodes, engines, models, operations; infer: inference only */
            scope?: components["schemas"]["Scope"] | null;
        };
        /**
         * VariantOut
         * @description A variant of a model in a gallery, such as a quantisation, with whether it fits on the nodes.
         */
        VariantOut: {
            /** Backend */
            backend: string;
            /** Fits */
            fits: boolean;
            /** Fits On */
            fits_on?: string[];
            /** Is Base */
            is_base: boolean;
            /** Memory Bytes */
            memory_bytes?: number | null;
            /** Model */
            model: string;
            /**
             * Reason
             * @default
             */
            reason: string;
        };
        /**
         * VariantsOut
         * @description Response of `GET /api/models/variants/{name}`: a gallery model's variants, and the one to be chosen.
         */
        VariantsOut: {
            /** Auto Selected */
            auto_selected: string;
            /** Variants */
            variants: components["schemas"]["VariantOut"][];
            /** Warnings */
            warnings?: string[];
        };
        /**
         * VramBudgetIn
         * @description Body of `PUT /api/nodes/{node}/vram-budget`: how much of the node's GPU memory Corral may use.
         */
        VramBudgetIn: {
            /** Value */
            value: string;
        };
        /**
         * VramBudgetOut
         * @description Response to a change of how much of a node's GPU memory Corral may use: the amount that counts now.
         */
        VramBudgetOut: {
            /**
             * Reset
             * @default false
             */
            reset: boolean;
            /** Vram Budget */
            vram_budget: string;
            /** Vram Budget Bytes */
            vram_budget_bytes?: number | null;
        };
        /**
         * WebhookSecretOut
         * @description Response of `GET /api/agent/tasks/{task_id}/webhook-secret`.
         *
         *     With this secret a receiver checks the signatures of the task's webhooks.
         */
        WebhookSecretOut: {
            /**
             * Secret
             * @description `whsec_…`, as libraries of Standard Webhooks take it.
             */
            secret: string;
        };
        /**
         * WorkerBootIn
         * @description Body of a worker's request to drain, resume or remove its own node: identifies the worker process.
         */
        WorkerBootIn: {
            /** Boot Id */
            boot_id?: string | null;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type AgentBudgetsIn = components['schemas']['AgentBudgetsIn'];
export type AgentConfigOut = components['schemas']['AgentConfigOut'];
export type AgentFieldOut = components['schemas']['AgentFieldOut'];
export type AgentImportOut = components['schemas']['AgentImportOut'];
export type AgentIn = components['schemas']['AgentIn'];
export type AgentListOut = components['schemas']['AgentListOut'];
export type AgentMessageIn = components['schemas']['AgentMessageIn'];
export type AgentMessageOut = components['schemas']['AgentMessageOut'];
export type AgentMetadataOut = components['schemas']['AgentMetadataOut'];
export type AgentOut = components['schemas']['AgentOut'];
export type AgentStatusOut = components['schemas']['AgentStatusOut'];
export type AppliedUpgradesOut = components['schemas']['AppliedUpgradesOut'];
export type ApplyBackendIn = components['schemas']['ApplyBackendIn'];
export type ApplyModelIn = components['schemas']['ApplyModelIn'];
export type ApprovalDecision = components['schemas']['ApprovalDecision'];
export type ApprovedNodeOut = components['schemas']['ApprovedNodeOut'];
export type ApproveNodeIn = components['schemas']['ApproveNodeIn'];
export type AskAgentIn = components['schemas']['AskAgentIn'];
export type AskAgentOut = components['schemas']['AskAgentOut'];
export type AssignmentOut = components['schemas']['AssignmentOut'];
export type AuditEntryOut = components['schemas']['AuditEntryOut'];
export type AuditOut = components['schemas']['AuditOut'];
export type BackendChangeIn = components['schemas']['BackendChangeIn'];
export type BackendGarbageItemOut = components['schemas']['BackendGarbageItemOut'];
export type BackendGarbageOut = components['schemas']['BackendGarbageOut'];
export type BackendInstallationOut = components['schemas']['BackendInstallationOut'];
export type BackendOperationOut = components['schemas']['BackendOperationOut'];
export type BackendPlanOut = components['schemas']['BackendPlanOut'];
export type BackendsReportIn = components['schemas']['BackendsReportIn'];
export type BackendUpgradeOut = components['schemas']['BackendUpgradeOut'];
export type BatchAnswersIn = components['schemas']['BatchAnswersIn'];
export type BatchCountsOut = components['schemas']['BatchCountsOut'];
export type BatchCursorOut = components['schemas']['BatchCursorOut'];
export type BatchErrorListOut = components['schemas']['BatchErrorListOut'];
export type BatchErrorOut = components['schemas']['BatchErrorOut'];
export type BatchIn = components['schemas']['BatchIn'];
export type BatchInputOut = components['schemas']['BatchInputOut'];
export type BatchListOut = components['schemas']['BatchListOut'];
export type BatchOut = components['schemas']['BatchOut'];
export type BatchValidationIn = components['schemas']['BatchValidationIn'];
export type BuildOut = components['schemas']['BuildOut'];
export type BusCredentialsIn = components['schemas']['BusCredentialsIn'];
export type BusCredentialsOut = components['schemas']['BusCredentialsOut'];
export type CallableAgentSpec = components['schemas']['CallableAgentSpec'];
export type CallDecisionIn = components['schemas']['CallDecisionIn'];
export type CallerOut = components['schemas']['CallerOut'];
export type CatalogEntryOut = components['schemas']['CatalogEntryOut'];
export type CatalogPageOut = components['schemas']['CatalogPageOut'];
export type ChatIn = components['schemas']['ChatIn'];
export type CheckpointIn = components['schemas']['CheckpointIn'];
export type CheckpointKeptOut = components['schemas']['CheckpointKeptOut'];
export type CheckpointListOut = components['schemas']['CheckpointListOut'];
export type CheckpointOut = components['schemas']['CheckpointOut'];
export type ClearedHistoryOut = components['schemas']['ClearedHistoryOut'];
export type CloneAgentIn = components['schemas']['CloneAgentIn'];
export type ClusterNodeOut = components['schemas']['ClusterNodeOut'];
export type ClusterOut = components['schemas']['ClusterOut'];
export type CollectionEntryOut = components['schemas']['CollectionEntryOut'];
export type CollectionIn = components['schemas']['CollectionIn'];
export type CollectionListOut = components['schemas']['CollectionListOut'];
export type CollectionOut = components['schemas']['CollectionOut'];
export type CollectionSearchIn = components['schemas']['CollectionSearchIn'];
export type CollectionSearchOut = components['schemas']['CollectionSearchOut'];
export type CollectionSourceIn = components['schemas']['CollectionSourceIn'];
export type CollectionSourceListOut = components['schemas']['CollectionSourceListOut'];
export type CollectionSourceOut = components['schemas']['CollectionSourceOut'];
export type CollectionSourceRefIn = components['schemas']['CollectionSourceRefIn'];
export type CollectionUploadOut = components['schemas']['CollectionUploadOut'];
export type CompletionIn = components['schemas']['CompletionIn'];
export type CopyCheckOut = components['schemas']['CopyCheckOut'];
export type CreatedKeyOut = components['schemas']['CreatedKeyOut'];
export type CreatedTokenOut = components['schemas']['CreatedTokenOut'];
export type DatasetListOut = components['schemas']['DatasetListOut'];
export type DatasetOut = components['schemas']['DatasetOut'];
export type DatasetSliceOut = components['schemas']['DatasetSliceOut'];
export type DeclaredServerIn = components['schemas']['DeclaredServerIn'];
export type DeclaredServerListOut = components['schemas']['DeclaredServerListOut'];
export type DeclaredServerOut = components['schemas']['DeclaredServerOut'];
export type DependencyOut = components['schemas']['DependencyOut'];
export type DocumentChunksIn = components['schemas']['DocumentChunksIn'];
export type DocumentChunksOut = components['schemas']['DocumentChunksOut'];
export type DocumentSliceOut = components['schemas']['DocumentSliceOut'];
export type EarlierMessageIn = components['schemas']['EarlierMessageIn'];
export type EmbeddingsIn = components['schemas']['EmbeddingsIn'];
export type EndedOperationOut = components['schemas']['EndedOperationOut'];
export type EngineLogLineOut = components['schemas']['EngineLogLineOut'];
export type EngineLogOut = components['schemas']['EngineLogOut'];
export type EngineMemoryOut = components['schemas']['EngineMemoryOut'];
export type EngineMonitorOut = components['schemas']['EngineMonitorOut'];
export type EngineProcessOut = components['schemas']['EngineProcessOut'];
export type EngineResponseOut = components['schemas']['EngineResponseOut'];
export type EntryContentOut = components['schemas']['EntryContentOut'];
export type EntryListOut = components['schemas']['EntryListOut'];
export type EntryRefIn = components['schemas']['EntryRefIn'];
export type ErrorBody = components['schemas']['ErrorBody'];
export type ErrorOut = components['schemas']['ErrorOut'];
export type EvictionVictimOut = components['schemas']['EvictionVictimOut'];
export type ExcludedReplicaOut = components['schemas']['ExcludedReplicaOut'];
export type ExplainRoutingIn = components['schemas']['ExplainRoutingIn'];
export type ExportResultIn = components['schemas']['ExportResultIn'];
export type ExportResultOut = components['schemas']['ExportResultOut'];
export type ExternalBackendIn = components['schemas']['ExternalBackendIn'];
export type FileGarbageOut = components['schemas']['FileGarbageOut'];
export type FileHolderOut = components['schemas']['FileHolderOut'];
export type FileOut = components['schemas']['FileOut'];
export type FilesOut = components['schemas']['FilesOut'];
export type FineTuneBackendOut = components['schemas']['FineTuneBackendOut'];
export type FineTuneCurveOut = components['schemas']['FineTuneCurveOut'];
export type FineTuneExportIn = components['schemas']['FineTuneExportIn'];
export type FineTuneExportOut = components['schemas']['FineTuneExportOut'];
export type FineTuneIn = components['schemas']['FineTuneIn'];
export type FineTuneListOut = components['schemas']['FineTuneListOut'];
export type FineTuneOut = components['schemas']['FineTuneOut'];
export type FineTunePointOut = components['schemas']['FineTunePointOut'];
export type FineTuneSourceOut = components['schemas']['FineTuneSourceOut'];
export type FineTuneStateIn = components['schemas']['FineTuneStateIn'];
export type FineTuneStateOut = components['schemas']['FineTuneStateOut'];
export type FittingNodeOut = components['schemas']['FittingNodeOut'];
export type FleetChangeOut = components['schemas']['FleetChangeOut'];
export type FleetChangesOut = components['schemas']['FleetChangesOut'];
export type FormFieldOut = components['schemas']['FormFieldOut'];
export type FormOptionOut = components['schemas']['FormOptionOut'];
export type FormTagsOut = components['schemas']['FormTagsOut'];
export type FoundChunkOut = components['schemas']['FoundChunkOut'];
export type FrontendOut = components['schemas']['FrontendOut'];
export type GalleryModelOut = components['schemas']['GalleryModelOut'];
export type GalleryOut = components['schemas']['GalleryOut'];
export type GalleryPageOut = components['schemas']['GalleryPageOut'];
export type GalleryRefreshOut = components['schemas']['GalleryRefreshOut'];
export type GarbageFileOut = components['schemas']['GarbageFileOut'];
export type GpuReport = components['schemas']['GpuReport'];
export type HeartbeatIn = components['schemas']['HeartbeatIn'];
export type HeartbeatOut = components['schemas']['HeartbeatOut'];
export type HeldBlobIn = components['schemas']['HeldBlobIn'];
export type HeldFileIn = components['schemas']['HeldFileIn'];
export type HeldModelIn = components['schemas']['HeldModelIn'];
export type HistorySeriesOut = components['schemas']['HistorySeriesOut'];
export type HoldingsIn = components['schemas']['HoldingsIn'];
export type HoldingsResultOut = components['schemas']['HoldingsResultOut'];
export type ImageIn = components['schemas']['ImageIn'];
export type ImportUriIn = components['schemas']['ImportUriIn'];
export type InstallBackendIn = components['schemas']['InstallBackendIn'];
export type InstalledBackendIn = components['schemas']['InstalledBackendIn'];
export type InstalledBackendOut = components['schemas']['InstalledBackendOut'];
export type InstalledSystemOut = components['schemas']['InstalledSystemOut'];
export type InstallModelIn = components['schemas']['InstallModelIn'];
export type JobCreatedOut = components['schemas']['JobCreatedOut'];
export type JobIn = components['schemas']['JobIn'];
export type JobMediaOut = components['schemas']['JobMediaOut'];
export type JobOut = components['schemas']['JobOut'];
export type JobTraceOut = components['schemas']['JobTraceOut'];
export type JobWebhookOut = components['schemas']['JobWebhookOut'];
export type JoinOut = components['schemas']['JoinOut'];
export type KeyIn = components['schemas']['KeyIn'];
export type KeyOut = components['schemas']['KeyOut'];
export type KeyPatch = components['schemas']['KeyPatch'];
export type KnownBackendOut = components['schemas']['KnownBackendOut'];
export type LeaderOut = components['schemas']['LeaderOut'];
export type LimitIn = components['schemas']['LimitIn'];
export type LimitOut = components['schemas']['LimitOut'];
export type LiveModelOut = components['schemas']['LiveModelOut'];
export type LiveOut = components['schemas']['LiveOut'];
export type LiveReplicaOut = components['schemas']['LiveReplicaOut'];
export type LoadedReplicaOut = components['schemas']['LoadedReplicaOut'];
export type LoadIn = components['schemas']['LoadIn'];
export type LoadPlanIn = components['schemas']['LoadPlanIn'];
export type LoadPlanOut = components['schemas']['LoadPlanOut'];
export type LoadStatusOut = components['schemas']['LoadStatusOut'];
export type LocalAiJobOut = components['schemas']['LocalAiJobOut'];
export type LoginIn = components['schemas']['LoginIn'];
export type LoginMethodsOut = components['schemas']['LoginMethodsOut'];
export type McpServerFetchIn = components['schemas']['McpServerFetchIn'];
export type McpServerFetchOut = components['schemas']['McpServerFetchOut'];
export type McpServerIn = components['schemas']['McpServerIn'];
export type McpServerSpec = components['schemas']['McpServerSpec'];
export type MediaKind = components['schemas']['MediaKind'];
export type MediaSourceBody = components['schemas']['MediaSourceBody'];
export type MemoryEstimateOut = components['schemas']['MemoryEstimateOut'];
export type MessageOut = components['schemas']['MessageOut'];
export type ModelCapabilitiesListOut = components['schemas']['ModelCapabilitiesListOut'];
export type ModelCapabilitiesOut = components['schemas']['ModelCapabilitiesOut'];
export type ModelNameIn = components['schemas']['ModelNameIn'];
export type ModelNodeOut = components['schemas']['ModelNodeOut'];
export type ModelOperationOut = components['schemas']['ModelOperationOut'];
export type ModelOut = components['schemas']['ModelOut'];
export type ModelPlanOut = components['schemas']['ModelPlanOut'];
export type ModelPromptArgumentOut = components['schemas']['ModelPromptArgumentOut'];
export type ModelPromptOut = components['schemas']['ModelPromptOut'];
export type ModelProvenanceOut = components['schemas']['ModelProvenanceOut'];
export type ModelReplicaOut = components['schemas']['ModelReplicaOut'];
export type ModelResourceOut = components['schemas']['ModelResourceOut'];
export type ModelServerOut = components['schemas']['ModelServerOut'];
export type ModelServersOut = components['schemas']['ModelServersOut'];
export type ModelToolOut = components['schemas']['ModelToolOut'];
export type NodeBackendChangeIn = components['schemas']['NodeBackendChangeIn'];
export type NodeBackendInstallIn = components['schemas']['NodeBackendInstallIn'];
export type NodeBackendOut = components['schemas']['NodeBackendOut'];
export type NodeConditionOut = components['schemas']['NodeConditionOut'];
export type NodeDriftOut = components['schemas']['NodeDriftOut'];
export type NodeEngineProcessOut = components['schemas']['NodeEngineProcessOut'];
export type NodeModelIn = components['schemas']['NodeModelIn'];
export type NodeOut = components['schemas']['NodeOut'];
export type NodeProbeOut = components['schemas']['NodeProbeOut'];
export type NodeUpgradeOut = components['schemas']['NodeUpgradeOut'];
export type ObservableListOut = components['schemas']['ObservableListOut'];
export type ObservableOut = components['schemas']['ObservableOut'];
export type OpenAiFileDeletedOut = components['schemas']['OpenAiFileDeletedOut'];
export type OpenAiFileListOut = components['schemas']['OpenAiFileListOut'];
export type OpenAiFileOut = components['schemas']['OpenAiFileOut'];
export type OpenAiModelListOut = components['schemas']['OpenAiModelListOut'];
export type OpenAiModelOut = components['schemas']['OpenAiModelOut'];
export type OperationActionOut = components['schemas']['OperationActionOut'];
export type OperationDetailOut = components['schemas']['OperationDetailOut'];
export type OperationHistoryOut = components['schemas']['OperationHistoryOut'];
export type OperationNoteOut = components['schemas']['OperationNoteOut'];
export type OperationOut = components['schemas']['OperationOut'];
export type OperationRetryOut = components['schemas']['OperationRetryOut'];
export type OperationsOut = components['schemas']['OperationsOut'];
export type PendingApprovalOut = components['schemas']['PendingApprovalOut'];
export type PlacementOut = components['schemas']['PlacementOut'];
export type PlannedNodeOut = components['schemas']['PlannedNodeOut'];
export type PrefetchEntryOut = components['schemas']['PrefetchEntryOut'];
export type PrefetchIn = components['schemas']['PrefetchIn'];
export type PrefetchOut = components['schemas']['PrefetchOut'];
export type PromptExpansionIn = components['schemas']['PromptExpansionIn'];
export type PromptMessageOut = components['schemas']['PromptMessageOut'];
export type PromptMessagesOut = components['schemas']['PromptMessagesOut'];
export type QuantilePairOut = components['schemas']['QuantilePairOut'];
export type QuantizationBackendOut = components['schemas']['QuantizationBackendOut'];
export type QuantizationImportIn = components['schemas']['QuantizationImportIn'];
export type QuantizationImportOut = components['schemas']['QuantizationImportOut'];
export type QuantizationIn = components['schemas']['QuantizationIn'];
export type QuantizationListOut = components['schemas']['QuantizationListOut'];
export type QuantizationOut = components['schemas']['QuantizationOut'];
export type QuantizationPlanOut = components['schemas']['QuantizationPlanOut'];
export type QuantizationResultIn = components['schemas']['QuantizationResultIn'];
export type QuantizationResultOut = components['schemas']['QuantizationResultOut'];
export type QuantizationSizeOut = components['schemas']['QuantizationSizeOut'];
export type QuantizationSourceIn = components['schemas']['QuantizationSourceIn'];
export type QuantizationSourceOut = components['schemas']['QuantizationSourceOut'];
export type RefusedNodeOut = components['schemas']['RefusedNodeOut'];
export type RefusedUpgradeOut = components['schemas']['RefusedUpgradeOut'];
export type RegisterIn = components['schemas']['RegisterIn'];
export type RegisterOut = components['schemas']['RegisterOut'];
export type RenameIn = components['schemas']['RenameIn'];
export type ReplicaOut = components['schemas']['ReplicaOut'];
export type ReplicaSlotsIn = components['schemas']['ReplicaSlotsIn'];
export type ReplicaSlotsOut = components['schemas']['ReplicaSlotsOut'];
export type RequestPaceOut = components['schemas']['RequestPaceOut'];
export type RerankIn = components['schemas']['RerankIn'];
export type ResourceContentOut = components['schemas']['ResourceContentOut'];
export type ResourceReadIn = components['schemas']['ResourceReadIn'];
export type ResponseIn = components['schemas']['ResponseIn'];
export type RevisionDiffOut = components['schemas']['RevisionDiffOut'];
export type RevisionOut = components['schemas']['RevisionOut'];
export type RollbackIn = components['schemas']['RollbackIn'];
export type RotateIn = components['schemas']['RotateIn'];
export type RouteCandidateOut = components['schemas']['RouteCandidateOut'];
export type RoutingExplanationOut = components['schemas']['RoutingExplanationOut'];
export type RuleOut = components['schemas']['RuleOut'];
export type RunArtifactListOut = components['schemas']['RunArtifactListOut'];
export type RunArtifactOut = components['schemas']['RunArtifactOut'];
export type RunBudgetsSpec = components['schemas']['RunBudgetsSpec'];
export type RunEventIn = components['schemas']['RunEventIn'];
export type RunEventOut = components['schemas']['RunEventOut'];
export type RunEventsIn = components['schemas']['RunEventsIn'];
export type RunEventsOut = components['schemas']['RunEventsOut'];
export type RunEventType = components['schemas']['RunEventType'];
export type RunFileIn = components['schemas']['RunFileIn'];
export type RunFileOut = components['schemas']['RunFileOut'];
export type RunKind = components['schemas']['RunKind'];
export type RunListOut = components['schemas']['RunListOut'];
export type RunMemoryIn = components['schemas']['RunMemoryIn'];
export type RunMemoryOut = components['schemas']['RunMemoryOut'];
export type RunningProcessIn = components['schemas']['RunningProcessIn'];
export type RunOptionsSpec = components['schemas']['RunOptionsSpec'];
export type RunOut = components['schemas']['RunOut'];
export type RunSearchIn = components['schemas']['RunSearchIn'];
export type RunSearchOut = components['schemas']['RunSearchOut'];
export type RunSpec = components['schemas']['RunSpec'];
export type RunTraceOut = components['schemas']['RunTraceOut'];
export type RunUsageOut = components['schemas']['RunUsageOut'];
export type RunWorkOut = components['schemas']['RunWorkOut'];
export type SavedModelOut = components['schemas']['SavedModelOut'];
export type SchedulePreviewOut = components['schemas']['SchedulePreviewOut'];
export type Scope = components['schemas']['Scope'];
export type SecretIn = components['schemas']['SecretIn'];
export type SecretOut = components['schemas']['SecretOut'];
export type SecretScope = components['schemas']['SecretScope'];
export type SettingOut = components['schemas']['SettingOut'];
export type SettingsOut = components['schemas']['SettingsOut'];
export type SkillContentOut = components['schemas']['SkillContentOut'];
export type SkillDetailOut = components['schemas']['SkillDetailOut'];
export type SkillFileOut = components['schemas']['SkillFileOut'];
export type SkillFileSpec = components['schemas']['SkillFileSpec'];
export type SkillImportOut = components['schemas']['SkillImportOut'];
export type SkillIn = components['schemas']['SkillIn'];
export type SkillLimitsOut = components['schemas']['SkillLimitsOut'];
export type SkillOut = components['schemas']['SkillOut'];
export type SkillRepoIn = components['schemas']['SkillRepoIn'];
export type SkillRepoOut = components['schemas']['SkillRepoOut'];
export type SkillRepoToggleIn = components['schemas']['SkillRepoToggleIn'];
export type SkillSpec = components['schemas']['SkillSpec'];
export type SkillSyncIn = components['schemas']['SkillSyncIn'];
export type SkillSyncOut = components['schemas']['SkillSyncOut'];
export type SkippedNodeOut = components['schemas']['SkippedNodeOut'];
export type SpeechIn = components['schemas']['SpeechIn'];
export type StartedEngineOut = components['schemas']['StartedEngineOut'];
export type StartEngineIn = components['schemas']['StartEngineIn'];
export type StopEnginesIn = components['schemas']['StopEnginesIn'];
export type StoppedEnginesOut = components['schemas']['StoppedEnginesOut'];
export type StoredFileOut = components['schemas']['StoredFileOut'];
export type StrategyIn = components['schemas']['StrategyIn'];
export type SurvivingEngineIn = components['schemas']['SurvivingEngineIn'];
export type TargetDetailOut = components['schemas']['TargetDetailOut'];
export type TargetOut = components['schemas']['TargetOut'];
export type TargetsIn = components['schemas']['TargetsIn'];
export type TaskBudgetsBody = components['schemas']['TaskBudgetsBody'];
export type TaskCatchUp = components['schemas']['TaskCatchUp'];
export type TaskCreatedOut = components['schemas']['TaskCreatedOut'];
export type TaskIn = components['schemas']['TaskIn'];
export type TaskOut = components['schemas']['TaskOut'];
export type TaskOverlap = components['schemas']['TaskOverlap'];
export type TaskRunStatus = components['schemas']['TaskRunStatus'];
export type TaskWebhookBody = components['schemas']['TaskWebhookBody'];
export type ThreadIn = components['schemas']['ThreadIn'];
export type ThreadListOut = components['schemas']['ThreadListOut'];
export type ThreadMessageOut = components['schemas']['ThreadMessageOut'];
export type ThreadMessagesOut = components['schemas']['ThreadMessagesOut'];
export type ThreadOut = components['schemas']['ThreadOut'];
export type TokenIn = components['schemas']['TokenIn'];
export type TokenOut = components['schemas']['TokenOut'];
export type ToolFileIn = components['schemas']['ToolFileIn'];
export type ToolFileOut = components['schemas']['ToolFileOut'];
export type UnloadIn = components['schemas']['UnloadIn'];
export type UploadedFileOut = components['schemas']['UploadedFileOut'];
export type UsageFormat = components['schemas']['UsageFormat'];
export type UsageOut = components['schemas']['UsageOut'];
export type UsageRowOut = components['schemas']['UsageRowOut'];
export type UsageSumsOut = components['schemas']['UsageSumsOut'];
export type UserAgentOut = components['schemas']['UserAgentOut'];
export type UserAgentsOut = components['schemas']['UserAgentsOut'];
export type UserIn = components['schemas']['UserIn'];
export type UserOut = components['schemas']['UserOut'];
export type UserPatch = components['schemas']['UserPatch'];
export type VariantOut = components['schemas']['VariantOut'];
export type VariantsOut = components['schemas']['VariantsOut'];
export type VramBudgetIn = components['schemas']['VramBudgetIn'];
export type VramBudgetOut = components['schemas']['VramBudgetOut'];
export type WebhookSecretOut = components['schemas']['WebhookSecretOut'];
export type WorkerBootIn = components['schemas']['WorkerBootIn'];
export type $defs = Record<string, never>;
export interface operations {
    list_jobs_api_agent_jobs_get: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
                limit?: number;
                status?: components["schemas"]["TaskRunStatus"] | null;
                /** @description Id or name of a task. */
                task_id?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobOut"][];
                };
            };
        };
    };
    show_job_api_agent_jobs__job_id__get: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
            };
            header?: never;
            path: {
                job_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobOut"];
                };
            };
        };
    };
    delete_job_api_agent_jobs__job_id__delete: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
            };
            header?: never;
            path: {
                job_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    cancel_job_api_agent_jobs__job_id__cancel_post: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
            };
            header?: never;
            path: {
                job_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobOut"];
                };
            };
        };
    };
    stream_job_api_agent_jobs__job_id__progress_get: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
            };
            header?: {
                "last-event-id"?: string | null;
            };
            path: {
                job_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    execute_job_api_agent_jobs_execute_post: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["JobIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobCreatedOut"];
                };
            };
        };
    };
    preview_schedule_api_agent_schedule_get: {
        parameters: {
            query: {
                /** @description How many times to return. */
                count?: number;
                /** @description Five fields, or @hourly, @daily, … */
                cron: string;
                /** @description IANA name of the zone of the pattern. */
                time_zone?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SchedulePreviewOut"];
                };
            };
        };
    };
    list_tasks_api_agent_tasks_get: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TaskOut"][];
                };
            };
        };
    };
    create_task_api_agent_tasks_post: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TaskIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TaskCreatedOut"];
                };
            };
        };
    };
    execute_task_api_agent_tasks__name__execute_post: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    [key: string]: unknown;
                } | null;
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobCreatedOut"];
                };
            };
        };
    };
    show_task_api_agent_tasks__task_id__get: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
            };
            header?: never;
            path: {
                task_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TaskOut"];
                };
            };
        };
    };
    edit_task_api_agent_tasks__task_id__put: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
            };
            header?: {
                /** @description The revision that was seen; another one is refused with 409. */
                "if-match"?: string | null;
            };
            path: {
                task_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TaskIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TaskOut"];
                };
            };
        };
    };
    delete_task_api_agent_tasks__task_id__delete: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
            };
            header?: never;
            path: {
                task_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    disable_task_api_agent_tasks__task_id__disable_post: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
            };
            header?: never;
            path: {
                task_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TaskOut"];
                };
            };
        };
    };
    enable_task_api_agent_tasks__task_id__enable_post: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
            };
            header?: never;
            path: {
                task_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TaskOut"];
                };
            };
        };
    };
    show_webhook_secret_api_agent_tasks__task_id__webhook_secret_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                task_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WebhookSecretOut"];
                };
            };
        };
    };
    list_agents_api_agents_get: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AgentListOut"];
                };
            };
        };
    };
    create_agent_api_agents_post: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["AgentIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AgentConfigOut"];
                };
            };
        };
    };
    show_agent_api_agents__name__get: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
                /** @description For admins: whose agent is meant, as in user:…. */
                owner?: string;
                /** @description The same as `owner`, for LocalAI's page; or a user's id. */
                user_id?: string;
            };
            header?: never;
            path: {
                /** @description The name of an agent: your own, or a shared one. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AgentConfigOut"];
                };
            };
        };
    };
    put_agent_api_agents__name__put: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
                /** @description For admins: whose agent is meant, as in user:…. */
                owner?: string;
                /** @description The same as `owner`, for LocalAI's page; or a user's id. */
                user_id?: string;
            };
            header?: {
                /** @description The revision that was seen; another one is refused with 409. */
                "if-match"?: string | null;
            };
            path: {
                /** @description The name of an agent: your own, or a shared one. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["AgentIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AgentConfigOut"];
                };
            };
        };
    };
    delete_agent_api_agents__name__delete: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
                /** @description For admins: whose agent is meant, as in user:…. */
                owner?: string;
                /** @description The same as `owner`, for LocalAI's page; or a user's id. */
                user_id?: string;
            };
            header?: never;
            path: {
                /** @description The name of an agent: your own, or a shared one. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    chat_with_agent_api_agents__name__chat_post: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
                /** @description For admins: whose agent is meant, as in user:…. */
                owner?: string;
                /** @description The same as `owner`, for LocalAI's page; or a user's id. */
                user_id?: string;
            };
            header?: never;
            path: {
                /** @description The name of an agent: your own, or a shared one. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["AgentMessageIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AgentMessageOut"];
                };
            };
        };
    };
    clone_agent_api_agents__name__clone_post: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
                /** @description For admins: whose agent is meant, as in user:…. */
                owner?: string;
                /** @description The same as `owner`, for LocalAI's page; or a user's id. */
                user_id?: string;
            };
            header?: never;
            path: {
                /** @description The name of an agent: your own, or a shared one. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CloneAgentIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AgentConfigOut"];
                };
            };
        };
    };
    show_agent_config_api_agents__name__config_get: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
                /** @description For admins: whose agent is meant, as in user:…. */
                owner?: string;
                /** @description The same as `owner`, for LocalAI's page; or a user's id. */
                user_id?: string;
            };
            header?: never;
            path: {
                /** @description The name of an agent: your own, or a shared one. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    export_agent_api_agents__name__export_get: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
                /** @description For admins: whose agent is meant, as in user:…. */
                owner?: string;
                /** @description The same as `owner`, for LocalAI's page; or a user's id. */
                user_id?: string;
            };
            header?: never;
            path: {
                /** @description The name of an agent: your own, or a shared one. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": unknown;
                };
            };
        };
    };
    fetch_agent_file_api_agents__name__files_get: {
        parameters: {
            query: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
                /** @description For admins: whose agent is meant, as in user:…. */
                owner?: string;
                path: string;
                /** @description The same as `owner`, for LocalAI's page; or a user's id. */
                user_id?: string;
            };
            header?: never;
            path: {
                /** @description The name of an agent: your own, or a shared one. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The bytes of the file. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": string;
                };
            };
        };
    };
    list_observables_api_agents__name__observables_get: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
                /** @description For admins: whose agent is meant, as in user:…. */
                owner?: string;
                /** @description The same as `owner`, for LocalAI's page; or a user's id. */
                user_id?: string;
            };
            header?: never;
            path: {
                /** @description The name of an agent: your own, or a shared one. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ObservableListOut"];
                };
            };
        };
    };
    clear_observables_api_agents__name__observables_delete: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
                /** @description For admins: whose agent is meant, as in user:…. */
                owner?: string;
                /** @description The same as `owner`, for LocalAI's page; or a user's id. */
                user_id?: string;
            };
            header?: never;
            path: {
                /** @description The name of an agent: your own, or a shared one. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    pause_agent_api_agents__name__pause_put: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
                /** @description For admins: whose agent is meant, as in user:…. */
                owner?: string;
                /** @description The same as `owner`, for LocalAI's page; or a user's id. */
                user_id?: string;
            };
            header?: never;
            path: {
                /** @description The name of an agent: your own, or a shared one. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AgentOut"];
                };
            };
        };
    };
    resume_agent_api_agents__name__resume_put: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
                /** @description For admins: whose agent is meant, as in user:…. */
                owner?: string;
                /** @description The same as `owner`, for LocalAI's page; or a user's id. */
                user_id?: string;
            };
            header?: never;
            path: {
                /** @description The name of an agent: your own, or a shared one. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AgentOut"];
                };
            };
        };
    };
    stream_agent_api_agents__name__sse_get: {
        parameters: {
            query?: {
                /** @description The same as `Last-Event-ID`, for clients that cannot send it. */
                after?: string;
                /** @description For admins: those of all users. */
                all_users?: boolean;
                /** @description For admins: whose agent is meant, as in user:…. */
                owner?: string;
                /** @description Send the events `hello` at the beginning and `still` when nothing has happened. */
                signs?: boolean;
                /** @description The same as `owner`, for LocalAI's page; or a user's id. */
                user_id?: string;
            };
            header?: {
                "last-event-id"?: string | null;
            };
            path: {
                /** @description The name of an agent: your own, or a shared one. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    show_agent_status_api_agents__name__status_get: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
                /** @description For admins: whose agent is meant, as in user:…. */
                owner?: string;
                /** @description The same as `owner`, for LocalAI's page; or a user's id. */
                user_id?: string;
            };
            header?: never;
            path: {
                /** @description The name of an agent: your own, or a shared one. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AgentStatusOut"];
                };
            };
        };
    };
    list_threads_api_agents__name__threads_get: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
                limit?: number;
                /** @description For admins: whose agent is meant, as in user:…. */
                owner?: string;
                /** @description The same as `owner`, for LocalAI's page; or a user's id. */
                user_id?: string;
            };
            header?: never;
            path: {
                /** @description The name of an agent: your own, or a shared one. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ThreadListOut"];
                };
            };
        };
    };
    create_thread_api_agents__name__threads_post: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
                /** @description For admins: whose agent is meant, as in user:…. */
                owner?: string;
                /** @description The same as `owner`, for LocalAI's page; or a user's id. */
                user_id?: string;
            };
            header?: never;
            path: {
                /** @description The name of an agent: your own, or a shared one. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ThreadIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ThreadOut"];
                };
            };
        };
    };
    show_thread_api_agents__name__threads__thread_id__get: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
                /** @description For admins: whose agent is meant, as in user:…. */
                owner?: string;
                /** @description The same as `owner`, for LocalAI's page; or a user's id. */
                user_id?: string;
            };
            header?: never;
            path: {
                /** @description The name of an agent: your own, or a shared one. */
                name: string;
                thread_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ThreadOut"];
                };
            };
        };
    };
    delete_thread_api_agents__name__threads__thread_id__delete: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
                /** @description For admins: whose agent is meant, as in user:…. */
                owner?: string;
                /** @description The same as `owner`, for LocalAI's page; or a user's id. */
                user_id?: string;
            };
            header?: never;
            path: {
                /** @description The name of an agent: your own, or a shared one. */
                name: string;
                thread_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    list_messages_api_agents__name__threads__thread_id__messages_get: {
        parameters: {
            query?: {
                /** @description Only messages with a larger number. */
                after?: number;
                /** @description For admins: those of all users. */
                all_users?: boolean;
                /** @description For admins: whose agent is meant, as in user:…. */
                owner?: string;
                /** @description The same as `owner`, for LocalAI's page; or a user's id. */
                user_id?: string;
            };
            header?: never;
            path: {
                /** @description The name of an agent: your own, or a shared one. */
                name: string;
                thread_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ThreadMessagesOut"];
                };
            };
        };
    };
    list_collections_api_agents_collections_get: {
        parameters: {
            query?: {
                /** @description For admins: those of all owners. */
                all_users?: boolean;
                /** @description For admins: whose collections are meant: a user's id, or key:… of a key. */
                user_id?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CollectionListOut"];
                };
            };
        };
    };
    create_collection_api_agents_collections_post: {
        parameters: {
            query?: {
                /** @description For admins: whose collections are meant: a user's id, or key:… of a key. */
                user_id?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CollectionIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CollectionOut"];
                };
            };
        };
    };
    show_collection_api_agents_collections__name__get: {
        parameters: {
            query?: {
                /** @description For admins: whose collections are meant: a user's id, or key:… of a key. */
                user_id?: string;
            };
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CollectionOut"];
                };
            };
        };
    };
    delete_collection_api_agents_collections__name__delete: {
        parameters: {
            query?: {
                /** @description For admins: whose collections are meant: a user's id, or key:… of a key. */
                user_id?: string;
            };
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    list_entries_api_agents_collections__name__entries_get: {
        parameters: {
            query?: {
                /** @description The name of the last entry of the page before. */
                after?: string;
                limit?: number;
                /** @description For admins: whose collections are meant: a user's id, or key:… of a key. */
                user_id?: string;
            };
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EntryListOut"];
                };
            };
        };
    };
    download_entry_api_agents_collections__name__entries_raw__entry__get: {
        parameters: {
            query?: {
                /** @description For admins: whose collections are meant: a user's id, or key:… of a key. */
                user_id?: string;
            };
            header?: never;
            path: {
                entry: string;
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The bytes of the file. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": string;
                };
            };
        };
    };
    read_entry_api_agents_collections__name__entries__entry__get: {
        parameters: {
            query?: {
                /** @description The number of the first chunk. */
                start?: number;
                /** @description For admins: whose collections are meant: a user's id, or key:… of a key. */
                user_id?: string;
            };
            header?: never;
            path: {
                entry: string;
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EntryContentOut"];
                };
            };
        };
    };
    delete_entry_api_agents_collections__name__entry_delete_delete: {
        parameters: {
            query?: {
                /** @description For admins: whose collections are meant: a user's id, or key:… of a key. */
                user_id?: string;
            };
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EntryRefIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EntryListOut"];
                };
            };
        };
    };
    reset_collection_api_agents_collections__name__reset_post: {
        parameters: {
            query?: {
                /** @description For admins: whose collections are meant: a user's id, or key:… of a key. */
                user_id?: string;
            };
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CollectionOut"];
                };
            };
        };
    };
    query_collection_api_agents_collections__name__search_get: {
        parameters: {
            query?: {
                /** @description How many results at most. */
                max_results?: number;
                /** @description What to search for. */
                query?: string;
                /** @description For admins: whose collections are meant: a user's id, or key:… of a key. */
                user_id?: string;
            };
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CollectionSearchOut"];
                };
            };
        };
    };
    search_collection_api_agents_collections__name__search_post: {
        parameters: {
            query?: {
                /** @description For admins: whose collections are meant: a user's id, or key:… of a key. */
                user_id?: string;
            };
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CollectionSearchIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CollectionSearchOut"];
                };
            };
        };
    };
    list_sources_api_agents_collections__name__sources_get: {
        parameters: {
            query?: {
                /** @description For admins: whose collections are meant: a user's id, or key:… of a key. */
                user_id?: string;
            };
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CollectionSourceListOut"];
                };
            };
        };
    };
    add_source_api_agents_collections__name__sources_post: {
        parameters: {
            query?: {
                /** @description For admins: whose collections are meant: a user's id, or key:… of a key. */
                user_id?: string;
            };
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CollectionSourceIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CollectionSourceListOut"];
                };
            };
        };
    };
    delete_source_api_agents_collections__name__sources_delete: {
        parameters: {
            query?: {
                /** @description For admins: whose collections are meant: a user's id, or key:… of a key. */
                user_id?: string;
            };
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CollectionSourceRefIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CollectionSourceListOut"];
                };
            };
        };
    };
    upload_entry_api_agents_collections__name__upload_post: {
        parameters: {
            query?: {
                /** @description For admins: whose collections are meant: a user's id, or key:… of a key. */
                user_id?: string;
            };
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "multipart/form-data": {
                    /** Format: binary */
                    file: string;
                };
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CollectionUploadOut"];
                };
            };
        };
    };
    show_agent_form_api_agents_config_metadata_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AgentMetadataOut"];
                };
            };
        };
    };
    list_skill_repos_api_agents_git_repos_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SkillRepoOut"][];
                };
            };
        };
    };
    add_skill_repo_api_agents_git_repos_post: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SkillRepoIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SkillRepoOut"];
                };
            };
        };
    };
    show_skill_repo_api_agents_git_repos__repo_id__get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The id of a repository. */
                repo_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SkillRepoOut"];
                };
            };
        };
    };
    put_skill_repo_api_agents_git_repos__repo_id__put: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The id of a repository. */
                repo_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SkillRepoIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SkillRepoOut"];
                };
            };
        };
    };
    delete_skill_repo_api_agents_git_repos__repo_id__delete: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The id of a repository. */
                repo_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    sync_skill_repo_api_agents_git_repos__repo_id__sync_post: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The id of a repository. */
                repo_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SkillRepoOut"];
                };
            };
        };
    };
    toggle_skill_repo_api_agents_git_repos__repo_id__toggle_post: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The id of a repository. */
                repo_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["SkillRepoToggleIn"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SkillRepoOut"];
                };
            };
        };
    };
    import_agent_api_agents_import_post: {
        parameters: {
            query?: {
                /** @description Another name than that in the document. */
                name?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    [key: string]: unknown;
                };
                "multipart/form-data": {
                    /** Format: binary */
                    file: string;
                };
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AgentImportOut"];
                };
            };
        };
    };
    list_skills_api_agents_skills_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SkillOut"][];
                };
            };
        };
    };
    create_skill_api_agents_skills_post: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SkillIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SkillDetailOut"];
                };
            };
        };
    };
    show_skill_api_agents_skills__name__get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The name of a skill: your own, else a shared one. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SkillDetailOut"];
                };
            };
        };
    };
    put_skill_api_agents_skills__name__put: {
        parameters: {
            query?: never;
            header?: {
                /** @description The revision that was seen; another one is refused with 409. */
                "if-match"?: string | null;
            };
            path: {
                /** @description The name of a skill: your own, else a shared one. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SkillIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SkillDetailOut"];
                };
            };
        };
    };
    delete_skill_api_agents_skills__name__delete: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The name of a skill: your own, else a shared one. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    list_skill_files_api_agents_skills__name__resources_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The name of a skill: your own, else a shared one. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SkillFileOut"][];
                };
            };
        };
    };
    upload_skill_file_api_agents_skills__name__resources_post: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The name of a skill: your own, else a shared one. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "multipart/form-data": {
                    /** Format: binary */
                    file: string;
                    path: string;
                };
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SkillFileOut"];
                };
            };
        };
    };
    read_skill_file_api_agents_skills__name__resources__path__get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The name of a skill: your own, else a shared one. */
                name: string;
                /** @description Relative to the folder of the skill, such as references/fields.md. */
                path: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The bytes of the file. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": string;
                };
            };
        };
    };
    put_skill_file_api_agents_skills__name__resources__path__put: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The name of a skill: your own, else a shared one. */
                name: string;
                /** @description Relative to the folder of the skill, such as references/fields.md. */
                path: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/octet-stream": string;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SkillFileOut"];
                };
            };
        };
    };
    delete_skill_file_api_agents_skills__name__resources__path__delete: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The name of a skill: your own, else a shared one. */
                name: string;
                /** @description Relative to the folder of the skill, such as references/fields.md. */
                path: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    show_skill_limits_api_agents_skills_config_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SkillLimitsOut"];
                };
            };
        };
    };
    export_skill_api_agents_skills_export__name__get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The name of a skill: your own, else a shared one. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The bytes of the file. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": string;
                };
            };
        };
    };
    import_skills_api_agents_skills_import_post: {
        parameters: {
            query?: {
                /** @description Your skills of the same names are replaced with their files. */
                replace?: boolean;
                /** @description Every user's agents may use them. For admins. */
                shared?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/octet-stream": string;
                "multipart/form-data": {
                    /** Format: binary */
                    file: string;
                };
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SkillImportOut"];
                };
            };
        };
    };
    search_skills_api_agents_skills_search_get: {
        parameters: {
            query?: {
                /** @description A part of the name, the description or the text. */
                q?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SkillOut"][];
                };
            };
        };
    };
    list_audit_api_audit_get: {
        parameters: {
            query?: {
                /** @description The `next` of the previous page. */
                before?: number | null;
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuditOut"];
                };
            };
        };
    };
    list_assignments_api_backend_intents_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AssignmentOut"][];
                };
            };
        };
    };
    discard_assignment_api_backend_intents__node___backend__delete: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                backend: string;
                node: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MessageOut"];
                };
            };
        };
    };
    retry_assignment_api_backend_intents__node___backend__revive_post: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                backend: string;
                node: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OperationRetryOut"];
                };
            };
        };
    };
    list_catalog_api_backends_get: {
        parameters: {
            query?: {
                /** @description Entries on a page; at most 2000. */
                items?: number;
                order?: "asc" | "desc";
                page?: number;
                sort?: "name" | "repository" | "license" | "status";
                tag?: string;
                term?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CatalogPageOut"];
                };
            };
        };
    };
    delete_backend_api_backends_delete__name__post: {
        parameters: {
            query?: {
                /** @description Queue behind a running operation instead of failing. */
                after?: boolean;
                /** @description Dry run: only return what would change. */
                plan?: boolean;
            };
            header?: never;
            path: {
                /** @description Name or gallery@name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["TargetsIn"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BackendOperationOut"] | components["schemas"]["BackendPlanOut"];
                };
            };
        };
    };
    list_backend_galleries_api_backends_galleries_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GalleryOut"][];
                };
            };
        };
    };
    refresh_backend_galleries_api_backends_galleries_refresh_post: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GalleryRefreshOut"];
                };
            };
        };
    };
    install_external_backend_api_backends_install_external_post: {
        parameters: {
            query?: {
                /** @description Queue behind a running operation instead of failing. */
                after?: boolean;
                /** @description Dry run: only return what would change. */
                plan?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ExternalBackendIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BackendOperationOut"] | components["schemas"]["BackendPlanOut"];
                };
            };
        };
    };
    install_backend_api_backends_install__name__post: {
        parameters: {
            query?: {
                /** @description Queue behind a running operation instead of failing. */
                after?: boolean;
                /** @description Dry run: only return what would change. */
                plan?: boolean;
            };
            header?: never;
            path: {
                /** @description Name or gallery@name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["InstallBackendIn"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BackendOperationOut"] | components["schemas"]["BackendPlanOut"];
                };
            };
        };
    };
    show_backend_job_api_backends_job__uid__get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                uid: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LocalAiJobOut"];
                };
            };
        };
    };
    reinstall_backend_api_backends_reinstall__name__post: {
        parameters: {
            query?: {
                /** @description Queue behind a running operation instead of failing. */
                after?: boolean;
                /** @description Dry run: only return what would change. */
                plan?: boolean;
            };
            header?: never;
            path: {
                /** @description Name or gallery@name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["BackendChangeIn"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BackendOperationOut"] | components["schemas"]["BackendPlanOut"];
                };
            };
        };
    };
    roll_back_backend_api_backends_rollback__name__post: {
        parameters: {
            query?: {
                /** @description Queue behind a running operation instead of failing. */
                after?: boolean;
                /** @description Dry run: only return what would change. */
                plan?: boolean;
            };
            header?: never;
            path: {
                /** @description Name or gallery@name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["TargetsIn"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BackendOperationOut"] | components["schemas"]["BackendPlanOut"];
                };
            };
        };
    };
    delete_system_backend_api_backends_system_delete__name__post: {
        parameters: {
            query?: {
                /** @description Queue behind a running operation instead of failing. */
                after?: boolean;
                /** @description Dry run: only return what would change. */
                plan?: boolean;
            };
            header?: never;
            path: {
                /** @description Name or gallery@name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["TargetsIn"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BackendOperationOut"] | components["schemas"]["BackendPlanOut"];
                };
            };
        };
    };
    upgrade_backend_api_backends_upgrade__name__post: {
        parameters: {
            query?: {
                /** @description Queue behind a running operation instead of failing. */
                after?: boolean;
                /** @description Dry run: only return what would change. */
                plan?: boolean;
            };
            header?: never;
            path: {
                /** @description Name or gallery@name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["BackendChangeIn"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BackendOperationOut"] | components["schemas"]["BackendPlanOut"];
                };
            };
        };
    };
    list_upgrades_api_backends_upgrades_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        [key: string]: components["schemas"]["BackendUpgradeOut"];
                    };
                };
            };
        };
    };
    apply_upgrades_api_backends_upgrades_apply_post: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AppliedUpgradesOut"];
                };
            };
        };
    };
    check_upgrades_api_backends_upgrades_check_post: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        [key: string]: components["schemas"]["BackendUpgradeOut"];
                    };
                };
            };
        };
    };
    list_use_cases_api_backends_usecases_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        [key: string]: string[];
                    };
                };
            };
        };
    };
    show_cluster_api_cluster_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ClusterOut"];
                };
            };
        };
    };
    stream_events_api_events_get: {
        parameters: {
            query?: {
                /** @description Prefixes, such as node,key */
                topics?: string;
            };
            header?: {
                "last-event-id"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    explain_routing_api_explain_post: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ExplainRoutingIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RoutingExplanationOut"];
                };
            };
        };
    };
    list_files_api_files_get: {
        parameters: {
            query?: {
                after?: string;
                limit?: number;
                /** @description Only the files of this model. */
                model?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FilesOut"];
                };
            };
        };
    };
    send_file_api_files__sha256__put: {
        parameters: {
            query?: never;
            header?: {
                /** @description bytes first-last/total: a piece, which the next ones follow. */
                "content-range"?: string;
            };
            path: {
                /** @description 64 hexadecimal digits. */
                sha256: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The whole file has arrived and is intact. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UploadedFileOut"];
                };
            };
            /** @description The piece was stored; `X-File-Size` says how much has arrived. */
            308: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    collect_files_api_files_collect_post: {
        parameters: {
            query?: {
                /** @description Dry run: only return what would be removed. */
                dry_run?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FileGarbageOut"];
                };
            };
        };
    };
    send_quantization_file_api_files_results__node_id___run_id___sha256__put: {
        parameters: {
            query?: {
                /** @description The job that the worker was given. */
                job_id?: string;
            };
            header?: never;
            path: {
                node_id: string;
                run_id: string;
                /** @description 64 hexadecimal digits. */
                sha256: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The whole file has arrived and is intact. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UploadedFileOut"];
                };
            };
            /** @description The piece was stored; `X-File-Size` says how much has arrived. */
            308: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    list_fine_tuning_backends_api_fine_tuning_backends_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FineTuneBackendOut"][];
                };
            };
        };
    };
    list_datasets_api_fine_tuning_datasets_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DatasetListOut"];
                };
            };
        };
    };
    upload_dataset_api_fine_tuning_datasets_post: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "multipart/form-data": {
                    /** Format: binary */
                    file: string;
                };
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DatasetOut"];
                };
            };
        };
    };
    delete_dataset_api_fine_tuning_datasets__dataset_id__delete: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                dataset_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    list_fine_tuning_jobs_api_fine_tuning_jobs_get: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FineTuneListOut"];
                };
            };
        };
    };
    start_fine_tuning_api_fine_tuning_jobs_post: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["FineTuneIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FineTuneOut"];
                };
            };
        };
    };
    show_fine_tuning_api_fine_tuning_jobs__job_id__get: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
            };
            header?: never;
            path: {
                job_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FineTuneOut"];
                };
            };
        };
    };
    delete_fine_tuning_api_fine_tuning_jobs__job_id__delete: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
            };
            header?: never;
            path: {
                job_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    list_fine_tuning_checkpoints_api_fine_tuning_jobs__job_id__checkpoints_get: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
            };
            header?: never;
            path: {
                job_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CheckpointListOut"];
                };
            };
        };
    };
    read_fine_tuning_curve_api_fine_tuning_jobs__job_id__curve_get: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
            };
            header?: never;
            path: {
                job_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FineTuneCurveOut"];
                };
            };
        };
    };
    download_fine_tuning_api_fine_tuning_jobs__job_id__download_get: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
                /** @description Such as checkpoint-20; empty: the newest. */
                checkpoint?: string;
            };
            header?: never;
            path: {
                job_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    export_fine_tuning_api_fine_tuning_jobs__job_id__export_post: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
            };
            header?: never;
            path: {
                job_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["FineTuneExportIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FineTuneExportOut"];
                };
            };
        };
    };
    stream_fine_tuning_api_fine_tuning_jobs__job_id__progress_get: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
            };
            header?: {
                "last-event-id"?: string | null;
            };
            path: {
                job_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    stop_fine_tuning_api_fine_tuning_jobs__job_id__stop_post: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
                /** @description End with a checkpoint, behind the present step. */
                save_checkpoint?: boolean;
            };
            header?: never;
            path: {
                job_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FineTuneOut"];
                };
            };
        };
    };
    export_fleet_api_fleet_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    apply_fleet_api_fleet_post: {
        parameters: {
            query?: {
                /** @description Dry run: only return what would change. */
                plan?: boolean;
                /** @description Also remove what an earlier file created and this file does not name. */
                prune?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": Record<string, never>;
                "application/yaml": unknown;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FleetChangesOut"];
                };
            };
        };
    };
    show_cluster_history_api_history_get: {
        parameters: {
            query?: {
                /** @description How many minutes to go back. */
                minutes?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HistorySeriesOut"];
                };
            };
        };
    };
    show_join_commands_api_join_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JoinOut"];
                };
            };
        };
    };
    list_keys_api_keys_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeyOut"][];
                };
            };
        };
    };
    create_key_api_keys_post: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["KeyIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CreatedKeyOut"];
                };
            };
        };
    };
    show_key_api_keys__key_id__get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                key_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeyOut"];
                };
            };
        };
    };
    revoke_key_api_keys__key_id__delete: {
        parameters: {
            query?: {
                /** @description Revoke the key even if it is the last working admin key. */
                last?: boolean;
            };
            header?: never;
            path: {
                key_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeyOut"];
                };
            };
        };
    };
    change_key_api_keys__key_id__patch: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                key_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["KeyPatch"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeyOut"];
                };
            };
        };
    };
    rotate_key_api_keys__key_id__rotate_post: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                key_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["RotateIn"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CreatedKeyOut"];
                };
            };
        };
    };
    show_live_api_live_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LiveOut"];
                };
            };
        };
    };
    list_mcp_servers_api_mcp_servers_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeclaredServerListOut"];
                };
            };
        };
    };
    show_mcp_server_api_mcp_servers__name__get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The name of the server. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeclaredServerOut"];
                };
            };
        };
    };
    put_mcp_server_api_mcp_servers__name__put: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The name of the server. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DeclaredServerIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeclaredServerOut"];
                };
            };
        };
    };
    delete_mcp_server_api_mcp_servers__name__delete: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The name of the server. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    show_caller_api_me_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CallerOut"];
                };
            };
        };
    };
    show_own_usage_api_me_usage_get: {
        parameters: {
            query?: {
                /** @description Group by one or more of key, model, user, call, node, and day or hour. */
                by?: string;
                /** @description csv returns all rows, json the first 10,000. */
                format?: components["schemas"]["UsageFormat"];
                /** @description Start, as a day or a time; UTC without a zone. Default: 30 days ago. */
                from?: string | null;
                /** @description End, not included. Default: now. */
                to?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UsageOut"];
                    "text/csv": string;
                };
            };
        };
    };
    list_gallery_models_api_models_get: {
        parameters: {
            query?: {
                backend?: string;
                /** @description chat, completions, embeddings, transcriptions, speech, rerank … */
                capability?: string;
                /** @description Show variants behind the entry that names them. */
                collapse_variants?: boolean;
                /** @description Entries on a page; at most 2000. */
                items?: number;
                order?: "asc" | "desc";
                page?: number;
                sort?: "name" | "repository" | "license" | "status" | "backend" | "size";
                tag?: string;
                term?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GalleryPageOut"];
                };
            };
        };
    };
    load_model_api_models__name__load_post: {
        parameters: {
            query?: {
                /** @description Queue behind a running operation instead of failing. */
                after?: boolean;
                /** @description Dry run: only return what would change. */
                plan?: boolean;
            };
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["LoadIn"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelOperationOut"] | components["schemas"]["LoadPlanOut"];
                };
            };
        };
    };
    show_load_status_api_models__name__load_status_get: {
        parameters: {
            query?: {
                /** @description Respond with 204 instead of 404 if no load is running. */
                quiet?: boolean;
            };
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LoadStatusOut"];
                };
            };
            /** @description No load is running, and `quiet` is set. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    unload_model_api_models__name__unload_post: {
        parameters: {
            query?: {
                /** @description Queue behind a running operation instead of failing. */
                after?: boolean;
                /** @description Dry run: only return what would change. */
                plan?: boolean;
            };
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["UnloadIn"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelOperationOut"];
                };
            };
        };
    };
    list_capabilities_api_models_capabilities_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelCapabilitiesListOut"];
                };
            };
        };
    };
    show_model_config_api_models_config_json__name__get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description A name or an alias. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        [key: string]: unknown;
                    };
                };
            };
        };
    };
    patch_model_for_localai_api_models_config_json__name__patch: {
        parameters: {
            query?: never;
            header?: {
                /** @description The revision that was seen; another one is refused with 409. */
                "if-match"?: string | null;
            };
            path: {
                /** @description A name or an alias. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": Record<string, never>;
                "application/yaml": unknown;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SavedModelOut"];
                };
            };
        };
    };
    show_model_api_models_config__name__get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description A name or an alias. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelOut"];
                };
            };
        };
    };
    put_model_api_models_config__name__put: {
        parameters: {
            query?: never;
            header?: {
                /** @description The revision that was seen; another one is refused with 409. */
                "if-match"?: string | null;
                /** @description `*`: only if there is none yet. */
                "if-none-match"?: string | null;
            };
            path: {
                /** @description A name or an alias. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": Record<string, never>;
                "application/yaml": unknown;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SavedModelOut"];
                };
            };
        };
    };
    delete_model_api_models_config__name__delete: {
        parameters: {
            query?: never;
            header?: {
                /** @description The revision that was seen; another one is refused with 409. */
                "if-match"?: string | null;
            };
            path: {
                /** @description A name or an alias. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SavedModelOut"];
                };
            };
        };
    };
    patch_model_api_models_config__name__patch: {
        parameters: {
            query?: never;
            header?: {
                /** @description The revision that was seen; another one is refused with 409. */
                "if-match"?: string | null;
            };
            path: {
                /** @description A name or an alias. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": Record<string, never>;
                "application/yaml": unknown;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SavedModelOut"];
                };
            };
        };
    };
    list_models_api_models_configs_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelOut"][];
                };
            };
        };
    };
    delete_model_as_operation_api_models_delete__name__post: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description A name or an alias. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelOperationOut"];
                };
            };
        };
    };
    compare_revisions_api_models_diff__name__get: {
        parameters: {
            query?: {
                new?: number | null;
                old?: number | null;
            };
            header?: never;
            path: {
                /** @description A name or an alias. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RevisionDiffOut"];
                };
            };
        };
    };
    estimate_model_api_models_estimate__name__get: {
        parameters: {
            query?: {
                /** @description Context sizes: 8192,32768. */
                contexts?: string;
            };
            header?: never;
            path: {
                /** @description A name or gallery@name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemoryEstimateOut"];
                };
            };
        };
    };
    model_galleries_api_models_galleries_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GalleryOut"][];
                };
            };
        };
    };
    refresh_model_galleries_api_models_galleries_refresh_post: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GalleryRefreshOut"];
                };
            };
        };
    };
    install_model_api_models_install__name__post: {
        parameters: {
            query?: {
                /** @description Dry run: only return what would change. */
                plan?: boolean;
                variant?: string;
            };
            header?: never;
            path: {
                /** @description A name or gallery@name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["InstallModelIn"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelOperationOut"] | components["schemas"]["ModelPlanOut"];
                };
            };
        };
    };
    show_model_job_api_models_job__uid__get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                uid: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LocalAiJobOut"];
                };
            };
        };
    };
    rename_models_api_models_rename_post: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RenameIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SavedModelOut"][];
                };
            };
        };
    };
    list_revisions_api_models_revisions__name__get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description A name or an alias. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RevisionOut"][];
                };
            };
        };
    };
    roll_back_model_api_models_rollback__name__post: {
        parameters: {
            query?: never;
            header?: {
                /** @description The revision that was seen; another one is refused with 409. */
                "if-match"?: string | null;
            };
            path: {
                /** @description A name or an alias. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RollbackIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SavedModelOut"];
                };
            };
        };
    };
    list_variants_api_models_variants__name__get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description A name or gallery@name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VariantsOut"];
                };
            };
        };
    };
    list_nodes_api_nodes_get: {
        parameters: {
            query?: {
                selector?: string;
                status?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NodeOut"][];
                };
            };
        };
    };
    show_node_api_nodes__node__get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                node: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NodeOut"];
                };
            };
        };
    };
    remove_node_api_nodes__node__delete: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                node: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MessageOut"];
                };
            };
        };
    };
    approve_node_api_nodes__node__approve_post: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                node: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ApproveNodeIn"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApprovedNodeOut"];
                };
            };
        };
    };
    approve_labels_api_nodes__node__approve_labels_post: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                node: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ApproveNodeIn"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        [key: string]: string;
                    };
                };
            };
        };
    };
    list_logs_api_nodes__node__backend_logs_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                node: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": string[];
                };
            };
        };
    };
    read_log_api_nodes__node__backend_logs__key__get: {
        parameters: {
            query?: {
                lines?: number;
            };
            header?: never;
            path: {
                /** @description model#replica, with # as %23. */
                key: string;
                node: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EngineLogOut"];
                };
            };
        };
    };
    download_log_api_nodes__node__backend_logs__key__download_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description model#replica, with # as %23. */
                key: string;
                node: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The lines of the log. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
        };
    };
    follow_log_api_nodes__node__backend_logs__key__stream_get: {
        parameters: {
            query?: {
                /** @description The same as the header `Last-Event-ID`, which takes precedence. */
                after?: string | null;
            };
            header?: {
                /** @description The number of the last line. */
                "last-event-id"?: string | null;
            };
            path: {
                /** @description model#replica, with # as %23. */
                key: string;
                node: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    list_node_backends_api_nodes__node__backends_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                node: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NodeBackendOut"][];
                };
            };
        };
    };
    collect_node_garbage_api_nodes__node__backends_collect_post: {
        parameters: {
            query?: {
                dry_run?: boolean;
            };
            header?: never;
            path: {
                node: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BackendGarbageOut"];
                };
            };
        };
    };
    delete_on_node_api_nodes__node__backends_delete_post: {
        parameters: {
            query?: {
                /** @description Queue behind a running operation instead of failing. */
                after?: boolean;
                /** @description Dry run: only return what would change. */
                plan?: boolean;
            };
            header?: never;
            path: {
                node: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NodeBackendChangeIn"];
            };
        };
        responses: {
            /** @description A plan, or an operation that was requested before. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BackendOperationOut"] | components["schemas"]["BackendPlanOut"];
                };
            };
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BackendOperationOut"];
                };
            };
        };
    };
    install_on_node_api_nodes__node__backends_install_post: {
        parameters: {
            query?: {
                /** @description Queue behind a running operation instead of failing. */
                after?: boolean;
                /** @description Dry run: only return what would change. */
                plan?: boolean;
            };
            header?: never;
            path: {
                node: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NodeBackendInstallIn"];
            };
        };
        responses: {
            /** @description A plan, or an operation that was requested before. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BackendOperationOut"] | components["schemas"]["BackendPlanOut"];
                };
            };
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BackendOperationOut"];
                };
            };
        };
    };
    reinstall_on_node_api_nodes__node__backends_reinstall_post: {
        parameters: {
            query?: {
                /** @description Queue behind a running operation instead of failing. */
                after?: boolean;
                /** @description Dry run: only return what would change. */
                plan?: boolean;
            };
            header?: never;
            path: {
                node: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NodeBackendChangeIn"];
            };
        };
        responses: {
            /** @description A plan, or an operation that was requested before. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BackendOperationOut"] | components["schemas"]["BackendPlanOut"];
                };
            };
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BackendOperationOut"];
                };
            };
        };
    };
    roll_back_on_node_api_nodes__node__backends_rollback_post: {
        parameters: {
            query?: {
                /** @description Queue behind a running operation instead of failing. */
                after?: boolean;
                /** @description Dry run: only return what would change. */
                plan?: boolean;
            };
            header?: never;
            path: {
                node: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NodeBackendChangeIn"];
            };
        };
        responses: {
            /** @description A plan, or an operation that was requested before. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BackendOperationOut"] | components["schemas"]["BackendPlanOut"];
                };
            };
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BackendOperationOut"];
                };
            };
        };
    };
    start_engine_api_nodes__node__backends_start_post: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                node: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["StartEngineIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StartedEngineOut"];
                };
            };
        };
    };
    stop_engine_api_nodes__node__backends_stop_post: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                node: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["StopEnginesIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StoppedEnginesOut"];
                };
            };
        };
    };
    upgrade_on_node_api_nodes__node__backends_upgrade_post: {
        parameters: {
            query?: {
                /** @description Queue behind a running operation instead of failing. */
                after?: boolean;
                /** @description Dry run: only return what would change. */
                plan?: boolean;
            };
            header?: never;
            path: {
                node: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NodeBackendChangeIn"];
            };
        };
        responses: {
            /** @description A plan, or an operation that was requested before. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BackendOperationOut"] | components["schemas"]["BackendPlanOut"];
                };
            };
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BackendOperationOut"];
                };
            };
        };
    };
    drain_node_api_nodes__node__drain_post: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                node: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NodeOut"];
                };
            };
        };
    };
    show_node_history_api_nodes__node__history_get: {
        parameters: {
            query?: {
                /** @description How many minutes to go back. */
                minutes?: number;
            };
            header?: never;
            path: {
                node: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HistorySeriesOut"];
                };
            };
        };
    };
    show_labels_api_nodes__node__labels_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                node: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        [key: string]: string;
                    };
                };
            };
        };
    };
    replace_labels_api_nodes__node__labels_put: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                node: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    [key: string]: string;
                };
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        [key: string]: string;
                    };
                };
            };
        };
    };
    merge_labels_api_nodes__node__labels_patch: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                node: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    [key: string]: string;
                };
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        [key: string]: string;
                    };
                };
            };
        };
    };
    delete_label_api_nodes__node__labels__key__delete: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                key: string;
                node: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    set_slots_api_nodes__node__max_replicas_per_model_put: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                node: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ReplicaSlotsIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReplicaSlotsOut"];
                };
            };
        };
    };
    reset_slots_api_nodes__node__max_replicas_per_model_delete: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                node: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReplicaSlotsOut"];
                };
            };
        };
    };
    list_node_models_api_nodes__node__models_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                node: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReplicaOut"][];
                };
            };
        };
    };
    delete_model_on_node_api_nodes__node__models_delete_post: {
        parameters: {
            query?: {
                /** @description Queue behind a running operation instead of failing. */
                after?: boolean;
                /** @description Dry run: only return what would change. */
                plan?: boolean;
            };
            header?: never;
            path: {
                /** @description Name or id of a node. */
                node: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NodeModelIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelOperationOut"];
                };
            };
        };
    };
    unload_model_on_node_api_nodes__node__models_unload_post: {
        parameters: {
            query?: {
                /** @description Queue behind a running operation instead of failing. */
                after?: boolean;
                /** @description Dry run: only return what would change. */
                plan?: boolean;
            };
            header?: never;
            path: {
                /** @description Name or id of a node. */
                node: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NodeModelIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelOperationOut"];
                };
            };
        };
    };
    probe_node_api_nodes__node__probe_post: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                node: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NodeProbeOut"];
                };
            };
        };
    };
    list_processes_api_nodes__node__processes_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                node: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EngineProcessOut"][];
                };
            };
        };
    };
    resume_node_api_nodes__node__resume_post: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                node: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NodeOut"];
                };
            };
        };
    };
    stop_node_api_nodes__node__stop_post: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                node: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MessageOut"];
                };
            };
        };
    };
    set_budget_api_nodes__node__vram_budget_put: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                node: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["VramBudgetIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VramBudgetOut"];
                };
            };
        };
    };
    reset_budget_api_nodes__node__vram_budget_delete: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                node: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VramBudgetOut"];
                };
            };
        };
    };
    list_loaded_replicas_api_nodes_models_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReplicaOut"][];
                };
            };
        };
    };
    list_rules_for_localai_api_nodes_scheduling_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RuleOut"][];
                };
            };
        };
    };
    put_rule_for_localai_api_nodes_scheduling_post: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    [key: string]: unknown;
                };
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RuleOut"];
                };
            };
        };
    };
    show_rule_for_localai_api_nodes_scheduling__name__get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description A name or an alias. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RuleOut"];
                };
            };
        };
    };
    delete_rule_for_localai_api_nodes_scheduling__name__delete: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description A name or an alias. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    list_operations_api_operations_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OperationsOut"];
                };
            };
        };
    };
    show_operation_api_operations__operation_id__get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                operation_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OperationDetailOut"];
                };
            };
        };
    };
    cancel_operation_api_operations__operation_id__cancel_post: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                operation_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OperationActionOut"];
                };
            };
        };
    };
    dismiss_operation_api_operations__operation_id__dismiss_post: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                operation_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OperationActionOut"];
                };
            };
        };
    };
    show_operation_log_api_operations__operation_id__events_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                operation_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OperationNoteOut"][];
                };
            };
        };
    };
    pause_operation_api_operations__operation_id__pause_post: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                operation_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OperationActionOut"];
                };
            };
        };
    };
    resume_operation_api_operations__operation_id__resume_post: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                operation_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OperationActionOut"];
                };
            };
        };
    };
    retry_operation_api_operations__operation_id__retry_post: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                operation_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OperationRetryOut"];
                };
            };
        };
    };
    undismiss_operation_api_operations__operation_id__undismiss_post: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                operation_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OperationActionOut"];
                };
            };
        };
    };
    stream_operation_events_api_operations_events_get: {
        parameters: {
            query?: never;
            header?: {
                "last-event-id"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    list_history_api_operations_history_get: {
        parameters: {
            query?: {
                /** @description The `next` of the previous page. */
                before?: string;
                /** @description One kind, or all of `backends`, `models` (installing, deleting) or `loads`. */
                kind?: ("backends" | "models" | "loads" | "backend_install" | "backend_upgrade" | "backend_reinstall" | "backend_rollback" | "backend_delete" | "model_install" | "model_load" | "model_stage" | "model_unload" | "model_delete") | null;
                limit?: number;
                /** @description Id or name of a node: only operations on this node, alone or among others. Also of a removed node, by its former id or name. */
                node?: string;
                /** @description Only this outcome. */
                outcome?: ("completed" | "failed" | "cancelled" | "superseded") | null;
                /** @description Part of a name, a node, an error, a message, an id or a user. */
                search?: string;
                /** @description Ended at this time or later; UTC without a zone. */
                since?: string | null;
                /** @description Ended before this time; UTC without a zone. */
                until?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OperationHistoryOut"];
                };
            };
        };
    };
    clear_history_api_operations_history_delete: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ClearedHistoryOut"];
                };
            };
        };
    };
    plan_load_api_plan_post: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["LoadPlanIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LoadPlanOut"];
                };
            };
        };
    };
    list_quantization_backends_api_quantization_backends_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["QuantizationBackendOut"][];
                };
            };
        };
    };
    list_quantization_jobs_api_quantization_jobs_get: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["QuantizationListOut"];
                };
            };
        };
    };
    start_quantization_api_quantization_jobs_post: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["QuantizationIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["QuantizationOut"];
                };
            };
        };
    };
    show_quantization_api_quantization_jobs__job_id__get: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
            };
            header?: never;
            path: {
                job_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["QuantizationOut"];
                };
            };
        };
    };
    delete_quantization_api_quantization_jobs__job_id__delete: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
            };
            header?: never;
            path: {
                job_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    download_quantization_api_quantization_jobs__job_id__download_get: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
            };
            header?: never;
            path: {
                job_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    import_quantization_api_quantization_jobs__job_id__import_post: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
            };
            header?: never;
            path: {
                job_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["QuantizationImportIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["QuantizationImportOut"];
                };
            };
        };
    };
    stream_quantization_api_quantization_jobs__job_id__progress_get: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
            };
            header?: {
                "last-event-id"?: string | null;
            };
            path: {
                job_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    stop_quantization_api_quantization_jobs__job_id__stop_post: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
            };
            header?: never;
            path: {
                job_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["QuantizationOut"];
                };
            };
        };
    };
    plan_quantization_api_quantization_plan_get: {
        parameters: {
            query: {
                model: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["QuantizationPlanOut"];
                };
            };
        };
    };
    list_rules_api_rules_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RuleOut"][];
                };
            };
        };
    };
    show_rule_api_rules__name__get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description A name or an alias. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RuleOut"];
                };
            };
        };
    };
    put_rule_api_rules__name__put: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description A name or an alias. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    [key: string]: unknown;
                };
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RuleOut"];
                };
            };
        };
    };
    delete_rule_api_rules__name__delete: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description A name or an alias. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RuleOut"];
                };
            };
        };
    };
    list_runs_api_runs_get: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
                /** @description `next` of the page before. */
                before?: string;
                kind?: components["schemas"]["RunKind"] | null;
                limit?: number;
                /** @description The name or the id of the node that has or had the run. */
                node?: string;
                /** @description A state, or `open` for all that have not ended. */
                state?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunListOut"];
                };
            };
        };
    };
    show_run_api_runs__run_id__get: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
            };
            header?: never;
            path: {
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunOut"];
                };
            };
        };
    };
    delete_run_api_runs__run_id__delete: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
            };
            header?: never;
            path: {
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    list_run_artifacts_api_runs__run_id__artifacts_get: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
            };
            header?: never;
            path: {
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunArtifactListOut"];
                };
            };
        };
    };
    read_run_artifact_api_runs__run_id__artifacts__artifact_id__get: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
            };
            header?: never;
            path: {
                artifact_id: string;
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The bytes of the file. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": string;
                };
            };
        };
    };
    decide_call_api_runs__run_id__calls__call_id__post: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
            };
            header?: never;
            path: {
                call_id: string;
                run_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CallDecisionIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunOut"];
                };
            };
        };
    };
    cancel_run_api_runs__run_id__cancel_post: {
        parameters: {
            query?: {
                /** @description For admins: those of all users. */
                all_users?: boolean;
            };
            header?: never;
            path: {
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunOut"];
                };
            };
        };
    };
    stream_trace_api_runs__run_id__events_get: {
        parameters: {
            query?: {
                /** @description Only entries with a larger number. */
                after?: number;
                /** @description For admins: those of all users. */
                all_users?: boolean;
            };
            header?: {
                "last-event-id"?: string | null;
            };
            path: {
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    show_trace_api_runs__run_id__trace_get: {
        parameters: {
            query?: {
                /** @description Only entries with a larger number. */
                after?: number;
                /** @description For admins: those of all users. */
                all_users?: boolean;
            };
            header?: never;
            path: {
                run_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunTraceOut"];
                };
            };
        };
    };
    list_secrets_api_secrets_get: {
        parameters: {
            query?: {
                /** @description own: of the caller's user or key; cluster: of the whole cluster. */
                scope?: components["schemas"]["SecretScope"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SecretOut"][];
                };
            };
        };
    };
    put_secret_api_secrets__name__put: {
        parameters: {
            query?: {
                /** @description own: of the caller's user or key; cluster: of the whole cluster. */
                scope?: components["schemas"]["SecretScope"];
            };
            header?: never;
            path: {
                /** @description Letters, digits, dots, dashes and underscores, 100 at most. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SecretIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SecretOut"];
                };
            };
        };
    };
    delete_secret_api_secrets__name__delete: {
        parameters: {
            query?: {
                /** @description own: of the caller's user or key; cluster: of the whole cluster. */
                scope?: components["schemas"]["SecretScope"];
            };
            header?: never;
            path: {
                /** @description Letters, digits, dots, dashes and underscores, 100 at most. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    show_session_api_session_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CallerOut"];
                };
            };
        };
    };
    log_in_api_session_post: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["LoginIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CallerOut"];
                };
            };
        };
    };
    log_out_api_session_delete: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    begin_provider_login_api_session_oidc_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            303: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    finish_provider_login_api_session_oidc_callback_get: {
        parameters: {
            query?: {
                code?: string;
                error?: string;
                state?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            303: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    list_login_methods_api_session_ways_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LoginMethodsOut"];
                };
            };
        };
    };
    show_settings_api_settings_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SettingsOut"];
                };
            };
        };
    };
    change_settings_api_settings_post: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    [key: string]: string | boolean | number | null;
                };
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SettingsOut"];
                };
            };
        };
    };
    stream_everything_api_stream_get: {
        parameters: {
            query?: {
                /** @description The same as the header `Last-Event-ID`, which takes precedence. */
                after?: string | null;
            };
            header?: {
                "last-event-id"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    list_tokens_api_tokens_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TokenOut"][];
                };
            };
        };
    };
    create_token_api_tokens_post: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TokenIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CreatedTokenOut"];
                };
            };
        };
    };
    revoke_token_api_tokens__token_id__delete: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                token_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TokenOut"];
                };
            };
        };
    };
    show_usage_api_usage_get: {
        parameters: {
            query?: {
                /** @description Group by one or more of key, model, user, call, node, and day or hour. */
                by?: string;
                /** @description csv returns all rows, json the first 10,000. */
                format?: components["schemas"]["UsageFormat"];
                /** @description Start, as a day or a time; UTC without a zone. Default: 30 days ago. */
                from?: string | null;
                /** @description End, not included. Default: now. */
                to?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UsageOut"];
                    "text/csv": string;
                };
            };
        };
    };
    list_users_api_users_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserOut"][];
                };
            };
        };
    };
    create_user_api_users_post: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["UserIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserOut"];
                };
            };
        };
    };
    show_user_api_users__user_id__get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                user_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserOut"];
                };
            };
        };
    };
    delete_user_api_users__user_id__delete: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                user_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserOut"];
                };
            };
        };
    };
    change_user_api_users__user_id__patch: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                user_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["UserPatch"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserOut"];
                };
            };
        };
    };
    list_installed_backends_backends_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InstalledBackendOut"][];
                };
            };
        };
    };
    toggle_model_pinned_models_toggle_pinned__name___action__put: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                action: "pin" | "unpin";
                /** @description A name or an alias. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SavedModelOut"];
                };
            };
        };
    };
    toggle_model_state_models_toggle_state__name___action__put: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                action: "enable" | "disable";
                /** @description A name or an alias. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SavedModelOut"];
                };
            };
        };
    };
    list_batches_v1_batches_get: {
        parameters: {
            query?: {
                /** @description The id of the last batch of the page before. */
                after?: string;
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BatchListOut"];
                };
            };
        };
    };
    create_batch_v1_batches_post: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["BatchIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BatchOut"];
                };
            };
        };
    };
    show_batch_v1_batches__batch_id__get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                batch_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BatchOut"];
                };
            };
        };
    };
    cancel_batch_v1_batches__batch_id__cancel_post: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                batch_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BatchOut"];
                };
            };
        };
    };
    list_files_v1_files_get: {
        parameters: {
            query?: {
                /** @description The id of the last file of the page before. */
                after?: string;
                limit?: number;
                order?: "asc" | "desc";
                purpose?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OpenAiFileListOut"];
                };
            };
        };
    };
    upload_file_v1_files_post: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "multipart/form-data": {
                    /** Format: binary */
                    file: string;
                    /** @enum {string} */
                    purpose: "batch" | "assistants" | "user_data" | "vision" | "evals" | "fine-tune";
                };
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OpenAiFileOut"];
                };
            };
        };
    };
    show_file_v1_files__file_id__get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                file_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OpenAiFileOut"];
                };
            };
        };
    };
    delete_file_v1_files__file_id__delete: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                file_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OpenAiFileDeletedOut"];
                };
            };
        };
    };
    read_file_content_v1_files__file_id__content_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                file_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The bytes of the file. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": string;
                };
            };
        };
    };
    list_model_servers_v1_mcp_servers__model__get: {
        parameters: {
            query?: {
                /** @description Only this server; may be repeated. Without: all of them. */
                server?: string[] | null;
            };
            header?: never;
            path: {
                /** @description The name of a model, or an alias. */
                model: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelServersOut"];
                };
            };
        };
    };
}
