// Written by `npm run types` from docs/reference/openapi.json. Do not edit by hand.
export interface paths {
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
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /**
         * AppliedUpgradesOut
         * @description The operations that upgrade all backends: one for each, and those that were refused.
         */
        AppliedUpgradesOut: {
            /** Operations */
            operations: components["schemas"]["BackendOperationOut"][];
            /** Refused */
            refused?: components["schemas"]["RefusedUpgradeOut"][];
        };
        /**
         * ApplyBackendIn
         * @description LocalAI's body of `POST /backends/apply`.
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
         * @description LocalAI's body of `POST /models/apply`.
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
         * ApprovedNodeOut
         * @description The node that was approved, and the labels that count from now on.
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
         * @description The proposed labels that the admin saw; only these are approved.
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
         * AssignmentOut
         * @description An assignment: a change that a node has not made yet.
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
         * @description One entry of the audit log: who did what to what.
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
         * @description A page of the audit log.
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
         * @description A change of a backend: its nodes, its version and whether the hardware is ignored.
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
         * @description One file or folder of a node that no backend uses.
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
         * @description The files that garbage collection removed on a node, or would remove.
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
         * @description One backend on one node, as its worker reported it.
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
         * @description The operation about a backend that a request was admitted as, with where to follow it.
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
         * @description The plan of an operation about a backend. Nothing was changed.
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
         * @description A worker's report of all backends that it has installed; a backend that is not listed is not installed.
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
         * @description An upgrade that is available for an installed backend, and the nodes that are behind or differ.
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
         * BuildOut
         * @description The backend build that one node gets, resolved for its hardware.
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
         * @description The public key that a node wants a bus credential for.
         */
        BusCredentialsIn: {
            /** Bus Public Key */
            bus_public_key: string;
        };
        /**
         * BusCredentialsOut
         * @description A bus credential of a node, and where the bus is.
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
         * CallerOut
         * @description The caller, and what they may do.
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
         * @description One entry of the backend catalog, with where it is installed.
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
         * @description A page of the backend catalog.
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
         * @description A chat completion request.
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
         * ClearedHistoryOut
         * @description The number of records that were removed from the history.
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
         * ClusterNodeOut
         * @description A node in brief: its name and status.
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
         * @description The cluster in brief: frontends, leader, nodes, PostgreSQL and NATS.
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
         * CompletionIn
         * @description A text completion request.
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
         * @description The result of checking a frontend's copy of a content: intact or not.
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
         * @description An API key that was just created or rotated, with its secret.
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
         * @description A join token that was just created, with its secret.
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
         * DependencyOut
         * @description The state of PostgreSQL or NATS, as this frontend sees it.
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
         * EmbeddingsIn
         * @description An embeddings request.
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
         * @description An operation that has ended, as the history shows it.
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
         * @description One line of an engine's log.
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
         * @description The last lines of an engine's log.
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
         * @description Resident memory of a model's engines, as LocalAI reports it.
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
         * @description Memory and processor use of a model's engines: in total, as LocalAI reports it, and for each process.
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
         * @description One engine process of a node, with its memory and processor use.
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
         * @description The engine's response, passed on unchanged.
         */
        EngineResponseOut: {
            [key: string]: unknown;
        };
        /**
         * ErrorBody
         * @description An error: a code for programs, a sentence and a hint for people.
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
         * @description The body of every failed response.
         */
        ErrorOut: {
            error: components["schemas"]["ErrorBody"];
        };
        /**
         * EvictionVictimOut
         * @description A replica that would be evicted to make room.
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
         * @description A replica that is loaded and gets no requests, and why.
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
         * @description The model whose routing is to be explained.
         */
        ExplainRoutingIn: {
            /**
             * Model
             * @description A model's name or one of its aliases.
             */
            model: string;
        };
        /**
         * ExternalBackendIn
         * @description An installation of a backend that is in no gallery, from an address.
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
         * @description The contents that garbage collection removed from a library, or would remove.
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
         * @description A library that holds a content: a frontend's, or a shared one.
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
         * @description One content of model files, with the models that use it and who holds it.
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
         * @description A page of the contents that the cluster knows.
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
         * FittingNodeOut
         * @description Another node on which the replica would fit, with its cost.
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
         * @description One change that applying a fleet file makes, or would make.
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
         * @description The changes that applying a fleet file made, or would make.
         */
        FleetChangesOut: {
            /** Plan */
            plan: boolean;
            /** Steps */
            steps: components["schemas"]["FleetChangeOut"][];
        };
        /**
         * FrontendOut
         * @description One frontend of the cluster.
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
         * @description One entry of a model gallery.
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
         * @description A gallery, with when it was last fetched and what went wrong.
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
         * @description A page of the model galleries.
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
         * @description The galleries as they are known when a refresh begins in the background.
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
         * @description One content that garbage collection removed, or would remove.
         */
        GarbageFileOut: {
            /** Sha256 */
            sha256: string;
            /** Size Bytes */
            size_bytes: number;
        };
        /**
         * GpuReport
         * @description One GPU of a machine, as its worker reports it.
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
         * @description `POST /api/node/{id}/heartbeat`: a field that is absent keeps its last value.
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
         * @description The answer to a heartbeat: whether the node is approved or draining, and when to send the next.
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
         * @description A content on a node, whole or in verified chunks.
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
         * @description One file of a model on a node.
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
         * @description A model whose files are all on a node.
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
         * @description Time series: for each name as many values as there are times. Null: not known at that time.
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
         * @description A worker's report of all processes it runs and all model files it holds; a process that is not listed does not
         *     run.
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
         * @description The changes that a holdings report made: keys of processes.
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
         * @description An image generation request.
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
         * @description LocalAI's body of `POST /models/import-uri`.
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
         * @description An installation of a backend from a gallery.
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
         * @description One installed backend, as a worker reports it.
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
         * @description A backend that is installed on some node. `Name`, `IsSystem`, `IsMeta` and `Nodes` are LocalAI's spelling.
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
         * @description The backends that are installed and the replicas that are loaded in this cluster.
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
         * @description A gallery entry to install as a model: its name, variant and overrides.
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
         * JoinOut
         * @description The commands that make another machine a node, and whether that machine can reach the cluster.
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
         * @description An API key to create.
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
         * @description An API key, without its secret.
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
         * @description A change of an API key; a field that is left out stays.
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
         * @description A backend that can be chosen, with the calls and file formats that it supports.
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
         * @description The frontend that leads, and its lease.
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
         * @description A limit to set on a key: requests and tokens for one model, or for all models together.
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
         * @description A limit of a key: requests and tokens for one model, or for all models together.
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
         * @description A model as it works now, with its replicas.
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
         * @description The activity of the cluster now. In `GET /api/stream` values that are at their default are left out.
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
         * @description A replica as it works now.
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
         * @description One loaded replica of a model, with the memory that it took.
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
         * @description Replicas to add to a model, each on another node.
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
         * @description A load whose placement is to be planned.
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
         * @description The nodes on which a model would be placed now, and why not on others. Nothing was changed.
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
         * @description The progress of a load. What is not known is absent.
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
         * @description LocalAI's view of an operation.
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
         * @description A login: either a name and its password, or a key.
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
         * @description The ways to log in that this cluster offers.
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
         * MemoryEstimateOut
         * @description An estimate of the memory that a replica of a model takes; empty if nothing is known.
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
         * @description A sentence that says what was done.
         */
        MessageOut: {
            /** Message */
            message: string;
        };
        /**
         * ModelCapabilitiesListOut
         * @description The models that a key may use, with what they can do.
         */
        ModelCapabilitiesListOut: {
            /** Data */
            data: components["schemas"]["ModelCapabilitiesOut"][];
        };
        /**
         * ModelCapabilitiesOut
         * @description A model as its users see it: what it can do and where it is loaded.
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
         * @description A model's name, as LocalAI's clients send it.
         */
        ModelNameIn: {
            /** Model */
            model: string;
        };
        /**
         * ModelNodeOut
         * @description A node on which a model is loaded.
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
         * @description The operation about a model that a request was admitted as, with where to follow it.
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
         * @description A model with its configuration, files and replicas.
         */
        ModelOut: {
            /** Aliases */
            aliases?: string[];
            /** Backend */
            backend: string;
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
         * @description The model that an installation would create. Nothing was changed.
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
         * ModelReplicaOut
         * @description One replica of a model, with its node.
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
         * NodeBackendChangeIn
         * @description A change of one backend on one node.
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
         * @description An installation on one node: a `backend` of a gallery, or a `uri` with a name.
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
         * @description One installed backend of one node.
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
         * @description One condition of a node, with since when it holds and why.
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
         * @description A node whose installed version differs from that of most nodes.
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
         * @description One engine process together with its node.
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
         * @description A model on one node, as LocalAI's clients name it.
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
         * @description A node as admins see it. `status` is computed from the conditions and not stored.
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
         * @description The reply of a node's worker to a probe over the bus: which process runs there, since when, and its hardware.
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
         * @description The change that an upgrade would make on one node.
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
         * OpenAiModelListOut
         * @description The OpenAI-compatible list of models.
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
         * @description A model in the OpenAI-compatible list.
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
         * @description The operation after an action on it, and a sentence.
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
         * @description An operation with all details of its nodes.
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
         * @description A page of the operations that have ended.
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
         * @description One line of an operation's log.
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
         * @description An operation, as the live list shows it.
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
         * @description The new operation that repeats an old one.
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
         * @description The live list of operations.
         */
        OperationsOut: {
            /** Operations */
            operations: components["schemas"]["OperationOut"][];
        };
        /**
         * PlacementOut
         * @description A replica that the plan puts on a node. Seconds are estimates.
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
         * @description The change that a planned operation would make on one node.
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
         * @description The result of one entry of a prefetch request.
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
         * @description The backends and models that a worker is configured to have on its disk.
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
         * @description The result of a prefetch request.
         */
        PrefetchOut: {
            /** Entries */
            entries: components["schemas"]["PrefetchEntryOut"][];
        };
        /**
         * QuantilePairOut
         * @description The median and the 95th percentile of a time in seconds. Null: nothing was measured in the last minute.
         */
        QuantilePairOut: {
            /** P50 */
            p50?: number | null;
            /** P95 */
            p95?: number | null;
        };
        /**
         * RefusedNodeOut
         * @description A node that the replica cannot be placed on, and why.
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
         * @description A backend whose upgrade was refused, and why.
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
         * @description `POST /api/node/register`: a worker registers its node, the first time and after every start.
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
            /** Name */
            name: string;
            /**
             * Node Type
             * @default backend
             */
            node_type: string;
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
         * @description The registered node, and its bus credential if it is approved.
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
         * @description Models to rename: old names to new ones; all or none.
         */
        RenameIn: {
            /** Names */
            names: {
                [key: string]: string;
            };
        };
        /**
         * ReplicaOut
         * @description A replica on a node, with LocalAI's field names.
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
         * @description The number of replicas of one model that a node may hold.
         */
        ReplicaSlotsIn: {
            /** Value */
            value: number;
        };
        /**
         * ReplicaSlotsOut
         * @description The number of replicas of one model that a node may hold, after a change.
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
         * @description Request rates of the last ten seconds and response times of the last minute, through all frontends.
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
         * @description A rerank request.
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
         * ResponseIn
         * @description A request to the Responses API.
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
         * @description The differences between two revisions of a model.
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
         * @description One revision of a model's configuration.
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
         * @description The revision of a model to go back to.
         */
        RollbackIn: {
            /** Revision */
            revision: number;
        };
        /**
         * RotateIn
         * @description A request to rotate a key: how long its old secret still works.
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
         * @description A replica that may get requests, with the numbers that routing goes by.
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
         * @description The replica that would answer a request for a model now, and why.
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
         * @description A placement and scaling rule of a model. `model_name`, `node_selector` and `spread_all` are LocalAI's field
         *     names.
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
         * RunningProcessIn
         * @description One running engine process, as a worker reports it.
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
         * SavedModelOut
         * @description The result of saving or deleting a model. `config_revision` and `pending_cleanup` are LocalAI's fields.
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
         * Scope
         * @description Names what a key or a user may do. Each scope includes those after it.
         * @enum {string}
         */
        Scope: "admin" | "operate" | "infer";
        /**
         * SettingOut
         * @description One setting of a frontend, with secrets masked.
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
         * @description The settings that a frontend runs with.
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
         * SkippedNodeOut
         * @description A node that a planned operation leaves out, and why.
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
         * @description A speech synthesis request.
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
         * @description The worker's job that starts an engine process.
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
         * @description An engine process to start on a node. Without a model the backend is only tried out.
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
         * @description The engine processes of a node to stop: exactly one of `backend`, `key` and `all`.
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
         * @description The engine processes that were stopped, and those that could not be.
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
         * @description One file of a model, with its checksum and size.
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
         * @description The rollout of an operation over its nodes: waves, and what happens after a failure.
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
         * @description An engine that outlived the worker process which started it.
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
         * @description One node of an operation with all details.
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
         * @description One node of an operation, with its progress.
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
         * @description The nodes that an operation is for, and how it rolls out over them.
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
         * TokenIn
         * @description A join token to create.
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
         * @description A join token, without its secret.
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
         * UnloadIn
         * @description Replicas of a model to end.
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
         * @description A file that was uploaded completely and verified.
         */
        UploadedFileOut: {
            /** Sha256 */
            sha256: string;
            /** Size Bytes */
            size_bytes: number;
        };
        /**
         * UsageFormat
         * @description Names the formats of a usage report.
         * @enum {string}
         */
        UsageFormat: "json" | "csv";
        /**
         * UsageOut
         * @description A usage report: rows and their total.
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
         * @description Sums of usage for one key, model, user, call, node or time.
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
         * @description Sums of requests, errors and tokens.
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
         * UserIn
         * @description A user to create.
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
         * @description A user, without the password.
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
         * @description A change of a user; a field that is left out stays.
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
         * @description A variant of a gallery entry, with whether it fits on the nodes.
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
         * @description The variants of a gallery entry, and the one that would be chosen.
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
         * @description The amount of a node's VRAM that may be used.
         */
        VramBudgetIn: {
            /** Value */
            value: string;
        };
        /**
         * VramBudgetOut
         * @description The amount of a node's VRAM that may be used, after a change.
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
         * WorkerBootIn
         * @description The worker process that sends a request about its own node.
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
export type AppliedUpgradesOut = components['schemas']['AppliedUpgradesOut'];
export type ApplyBackendIn = components['schemas']['ApplyBackendIn'];
export type ApplyModelIn = components['schemas']['ApplyModelIn'];
export type ApprovedNodeOut = components['schemas']['ApprovedNodeOut'];
export type ApproveNodeIn = components['schemas']['ApproveNodeIn'];
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
export type BuildOut = components['schemas']['BuildOut'];
export type BusCredentialsIn = components['schemas']['BusCredentialsIn'];
export type BusCredentialsOut = components['schemas']['BusCredentialsOut'];
export type CallerOut = components['schemas']['CallerOut'];
export type CatalogEntryOut = components['schemas']['CatalogEntryOut'];
export type CatalogPageOut = components['schemas']['CatalogPageOut'];
export type ChatIn = components['schemas']['ChatIn'];
export type ClearedHistoryOut = components['schemas']['ClearedHistoryOut'];
export type ClusterNodeOut = components['schemas']['ClusterNodeOut'];
export type ClusterOut = components['schemas']['ClusterOut'];
export type CompletionIn = components['schemas']['CompletionIn'];
export type CopyCheckOut = components['schemas']['CopyCheckOut'];
export type CreatedKeyOut = components['schemas']['CreatedKeyOut'];
export type CreatedTokenOut = components['schemas']['CreatedTokenOut'];
export type DependencyOut = components['schemas']['DependencyOut'];
export type EmbeddingsIn = components['schemas']['EmbeddingsIn'];
export type EndedOperationOut = components['schemas']['EndedOperationOut'];
export type EngineLogLineOut = components['schemas']['EngineLogLineOut'];
export type EngineLogOut = components['schemas']['EngineLogOut'];
export type EngineMemoryOut = components['schemas']['EngineMemoryOut'];
export type EngineMonitorOut = components['schemas']['EngineMonitorOut'];
export type EngineProcessOut = components['schemas']['EngineProcessOut'];
export type EngineResponseOut = components['schemas']['EngineResponseOut'];
export type ErrorBody = components['schemas']['ErrorBody'];
export type ErrorOut = components['schemas']['ErrorOut'];
export type EvictionVictimOut = components['schemas']['EvictionVictimOut'];
export type ExcludedReplicaOut = components['schemas']['ExcludedReplicaOut'];
export type ExplainRoutingIn = components['schemas']['ExplainRoutingIn'];
export type ExternalBackendIn = components['schemas']['ExternalBackendIn'];
export type FileGarbageOut = components['schemas']['FileGarbageOut'];
export type FileHolderOut = components['schemas']['FileHolderOut'];
export type FileOut = components['schemas']['FileOut'];
export type FilesOut = components['schemas']['FilesOut'];
export type FittingNodeOut = components['schemas']['FittingNodeOut'];
export type FleetChangeOut = components['schemas']['FleetChangeOut'];
export type FleetChangesOut = components['schemas']['FleetChangesOut'];
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
export type MemoryEstimateOut = components['schemas']['MemoryEstimateOut'];
export type MessageOut = components['schemas']['MessageOut'];
export type ModelCapabilitiesListOut = components['schemas']['ModelCapabilitiesListOut'];
export type ModelCapabilitiesOut = components['schemas']['ModelCapabilitiesOut'];
export type ModelNameIn = components['schemas']['ModelNameIn'];
export type ModelNodeOut = components['schemas']['ModelNodeOut'];
export type ModelOperationOut = components['schemas']['ModelOperationOut'];
export type ModelOut = components['schemas']['ModelOut'];
export type ModelPlanOut = components['schemas']['ModelPlanOut'];
export type ModelReplicaOut = components['schemas']['ModelReplicaOut'];
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
export type OpenAiModelListOut = components['schemas']['OpenAiModelListOut'];
export type OpenAiModelOut = components['schemas']['OpenAiModelOut'];
export type OperationActionOut = components['schemas']['OperationActionOut'];
export type OperationDetailOut = components['schemas']['OperationDetailOut'];
export type OperationHistoryOut = components['schemas']['OperationHistoryOut'];
export type OperationNoteOut = components['schemas']['OperationNoteOut'];
export type OperationOut = components['schemas']['OperationOut'];
export type OperationRetryOut = components['schemas']['OperationRetryOut'];
export type OperationsOut = components['schemas']['OperationsOut'];
export type PlacementOut = components['schemas']['PlacementOut'];
export type PlannedNodeOut = components['schemas']['PlannedNodeOut'];
export type PrefetchEntryOut = components['schemas']['PrefetchEntryOut'];
export type PrefetchIn = components['schemas']['PrefetchIn'];
export type PrefetchOut = components['schemas']['PrefetchOut'];
export type QuantilePairOut = components['schemas']['QuantilePairOut'];
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
export type ResponseIn = components['schemas']['ResponseIn'];
export type RevisionDiffOut = components['schemas']['RevisionDiffOut'];
export type RevisionOut = components['schemas']['RevisionOut'];
export type RollbackIn = components['schemas']['RollbackIn'];
export type RotateIn = components['schemas']['RotateIn'];
export type RouteCandidateOut = components['schemas']['RouteCandidateOut'];
export type RoutingExplanationOut = components['schemas']['RoutingExplanationOut'];
export type RuleOut = components['schemas']['RuleOut'];
export type RunningProcessIn = components['schemas']['RunningProcessIn'];
export type SavedModelOut = components['schemas']['SavedModelOut'];
export type Scope = components['schemas']['Scope'];
export type SettingOut = components['schemas']['SettingOut'];
export type SettingsOut = components['schemas']['SettingsOut'];
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
export type TokenIn = components['schemas']['TokenIn'];
export type TokenOut = components['schemas']['TokenOut'];
export type UnloadIn = components['schemas']['UnloadIn'];
export type UploadedFileOut = components['schemas']['UploadedFileOut'];
export type UsageFormat = components['schemas']['UsageFormat'];
export type UsageOut = components['schemas']['UsageOut'];
export type UsageRowOut = components['schemas']['UsageRowOut'];
export type UsageSumsOut = components['schemas']['UsageSumsOut'];
export type UserIn = components['schemas']['UserIn'];
export type UserOut = components['schemas']['UserOut'];
export type UserPatch = components['schemas']['UserPatch'];
export type VariantOut = components['schemas']['VariantOut'];
export type VariantsOut = components['schemas']['VariantsOut'];
export type VramBudgetIn = components['schemas']['VramBudgetIn'];
export type VramBudgetOut = components['schemas']['VramBudgetOut'];
export type WorkerBootIn = components['schemas']['WorkerBootIn'];
export type $defs = Record<string, never>;
export interface operations {
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
}
