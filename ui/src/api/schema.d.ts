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
        get: operations["list_intents_api_backend_intents_get"];
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
        delete: operations["drop_intent_api_backend_intents__node___backend__delete"];
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
        post: operations["revive_intent_api_backend_intents__node___backend__revive_post"];
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
        post: operations["delete_api_backends_delete__name__post"];
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
        get: operations["galleries_api_backends_galleries_get"];
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
        post: operations["refresh_galleries_api_backends_galleries_refresh_post"];
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
        post: operations["install_external_api_backends_install_external_post"];
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
        post: operations["install_api_backends_install__name__post"];
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
        get: operations["job_api_backends_job__uid__get"];
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
        post: operations["reinstall_api_backends_reinstall__name__post"];
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
        post: operations["roll_back_api_backends_rollback__name__post"];
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
        post: operations["delete_from_system_api_backends_system_delete__name__post"];
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
        post: operations["upgrade_api_backends_upgrade__name__post"];
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
        get: operations["upgrades_api_backends_upgrades_get"];
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
        get: operations["cluster_api_cluster_get"];
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
        get: operations["events_api_events_get"];
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
        post: operations["explain_api_explain_post"];
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
        get: operations["cluster_history_api_history_get"];
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
        get: operations["join_commands_api_join_get"];
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
        get: operations["live_api_live_get"];
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
        get: operations["who_am_i_api_me_get"];
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
        get: operations["my_usage_api_me_usage_get"];
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
        get: operations["list_gallery_api_models_get"];
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
        get: operations["load_status_api_models__name__load_status_get"];
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
        get: operations["get_model_config_api_models_config_json__name__get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch: operations["patch_model_as_ancestor_api_models_config_json__name__patch"];
        trace?: never;
    };
    "/api/models/config/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["get_model_api_models_config__name__get"];
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
        get: operations["compare_api_models_diff__name__get"];
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
        post: operations["install_api_models_install__name__post"];
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
        get: operations["model_job_api_models_job__uid__get"];
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
        post: operations["rename_api_models_rename_post"];
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
        post: operations["roll_back_api_models_rollback__name__post"];
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
        post: operations["collect_on_node_api_nodes__node__backends_collect_post"];
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
        get: operations["node_history_api_nodes__node__history_get"];
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
        put: operations["put_labels_api_nodes__node__labels_put"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch: operations["patch_labels_api_nodes__node__labels_patch"];
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
        post: operations["delete_on_node_api_nodes__node__models_delete_post"];
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
        post: operations["unload_on_node_api_nodes__node__models_unload_post"];
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
        get: operations["list_loaded_api_nodes_models_get"];
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
        get: operations["rules_as_ancestor_api_nodes_scheduling_get"];
        put?: never;
        post: operations["put_rule_as_ancestor_api_nodes_scheduling_post"];
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
        get: operations["rule_as_ancestor_api_nodes_scheduling__name__get"];
        put?: never;
        post?: never;
        delete: operations["delete_rule_as_ancestor_api_nodes_scheduling__name__delete"];
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
        get: operations["show_log_api_operations__operation_id__events_get"];
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
        get: operations["operation_events_api_operations_events_get"];
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
        get: operations["rules_api_rules_get"];
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
        get: operations["rule_api_rules__name__get"];
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
        get: operations["begin_at_provider_api_session_oidc_get"];
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
        get: operations["come_back_from_provider_api_session_oidc_callback_get"];
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
        get: operations["list_ways_api_session_ways_get"];
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
        get: operations["settings_api_settings_get"];
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
        get: operations["everything_api_stream_get"];
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
        get: operations["usage_api_usage_get"];
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
        get: operations["list_installed_backends_get"];
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
        put: operations["toggle_pinned_models_toggle_pinned__name___action__put"];
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
        put: operations["toggle_state_models_toggle_state__name___action__put"];
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
        /** ActionOut */
        ActionOut: {
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
         * AdmittedOut
         * @description The operation is written down; ask for it, follow it, or come back later.
         */
        AdmittedOut: {
            /**
             * Deduplicated
             * @description True: the same was asked for already, and this is that operation.
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
         * AnswerOut
         * @description What the engine says, as it says it.
         */
        AnswerOut: {
            [key: string]: unknown;
        };
        /**
         * ApplyIn
         * @description The ancestor's body of `POST /backends/apply`.
         */
        ApplyIn: {
            /**
             * Force
             * @description Fetch it again also where it is installed.
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
             * @description Also where the hardware does not ask for it.
             * @default false
             */
            ignore_capability: boolean;
            /**
             * Nodes
             * @description Names or ids. Absent: every node that may have it.
             */
            nodes?: string[] | null;
            strategy?: components["schemas"]["StrategyIn"];
            /**
             * Version
             * @description Empty: the newest.
             * @default
             */
            version: string;
        };
        /**
         * ApplyModelIn
         * @description The ancestor's body of `POST /models/apply`.
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
         * ApproveIn
         * @description What the admin has seen. A worker that changes its labels in the last moment gets only those approved.
         */
        ApproveIn: {
            /**
             * Labels
             * @description Only these pairs of `proposed_labels` are approved; absent: all of them.
             */
            labels?: {
                [key: string]: string;
            } | null;
        };
        /** ApproveOut */
        ApproveOut: {
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
             * @description Labels of the worker that count from now on.
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
         * AskedModelOut
         * @description The model is written down, and what is to be done about it is an operation.
         */
        AskedModelOut: {
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
             * @description The model.
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
        /** AuditEntryOut */
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
        /** AuditOut */
        AuditOut: {
            /**
             * Entries
             * @description The newest first.
             */
            entries: components["schemas"]["AuditEntryOut"][];
            /**
             * Next
             * @description Send it as `before` for the next page; null: this was the last one.
             */
            next: number | null;
        };
        /**
         * BackendsReportIn
         * @description Everything that a worker has, at once: what is not in it is not there.
         */
        BackendsReportIn: {
            /** Backends */
            backends: components["schemas"]["InstalledIn"][];
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
         * BootIn
         * @description What a worker says with a wish about itself: which of its lives is speaking.
         */
        BootIn: {
            /** Boot Id */
            boot_id?: string | null;
        };
        /** BudgetIn */
        BudgetIn: {
            /** Value */
            value: string;
        };
        /** BudgetOut */
        BudgetOut: {
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
         * BuildOut
         * @description What one node gets, resolved for its hardware.
         */
        BuildOut: {
            /**
             * Gallery
             * @default
             */
            gallery: string;
            /**
             * Meta
             * @description The name through which it was asked for.
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
         * CandidateOut
         * @description A replica that is given requests, with the numbers that a pick goes by.
         */
        CandidateOut: {
            /** Breaker */
            breaker: string;
            /**
             * Capacity
             * @description How many it works on at a time.
             */
            capacity: number;
            /**
             * Expected S
             * @description Seconds until it would have answered one more request; null: it takes none now.
             */
            expected_s: number | null;
            /**
             * Free Bytes
             * @description Memory free on its node; who has most goes first where nothing else differs.
             */
            free_bytes: number;
            /**
             * In Flight
             * @description Requests there, of all frontends.
             */
            in_flight: number;
            /**
             * Is Learnt
             * @description From its own answers; otherwise those of the others, or a second.
             */
            is_learnt: boolean;
            /**
             * Is Picked
             * @description It would get the next request.
             */
            is_picked: boolean;
            /**
             * Node
             * @description Name of its node.
             */
            node: string;
            /** Replica Id */
            replica_id: string;
            /**
             * Seconds
             * @description How long an answer takes there.
             */
            seconds: number;
            /** Sentence */
            sentence: string;
        };
        /** CapabilitiesListOut */
        CapabilitiesListOut: {
            /** Data */
            data: components["schemas"]["CapabilitiesOut"][];
        };
        /**
         * CapabilitiesOut
         * @description One model as somebody who wants to use it sees it.
         */
        CapabilitiesOut: {
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
             * @description The last load failed, and no replica is there.
             * @default false
             */
            load_failed: boolean;
            /** Loaded On */
            loaded_on?: components["schemas"]["LoadedOnOut"][];
            /** Name */
            name: string;
            /**
             * Pinned
             * @default false
             */
            pinned: boolean;
            /**
             * Source
             * @description registry-only: it runs, and nobody has its configuration any more.
             * @default
             */
            source: string;
        };
        /** CatalogEntryOut */
        CatalogEntryOut: {
            /**
             * Alias
             * @default
             */
            alias: string;
            /**
             * Capabilities
             * @description Hardware to concrete; of a meta only.
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
             * @description On at least one node.
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
             * @description Nobody has run it on the machines Corral is tested on.
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
             * @description The meta that a concrete belongs to.
             */
            metaBackendFor?: string | null;
            /** Name */
            name: string;
            /** Nodes */
            nodes?: components["schemas"]["InstalledOn"][];
            /**
             * Processing
             * @description An operation about it is under way.
             * @default false
             */
            processing: boolean;
            /**
             * Runson
             * @description Capabilities of present nodes that can run it.
             */
            runsOn?: string[];
            /** Tags */
            tags?: string[];
            /** Urls */
            urls?: string[];
            /**
             * Version
             * @description The installed one, or the newest there is.
             * @default
             */
            version: string;
            /**
             * Versions
             * @description Newest first.
             */
            versions?: string[];
        };
        /** CatalogPageOut */
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
             * @description Name to operation.
             */
            processingBackends: {
                [key: string]: string;
            };
            /**
             * Systemcapability
             * @description Capabilities of the present nodes, with commas.
             */
            systemCapability: string;
            /**
             * Tasktypes
             * @description Name to what is being done.
             */
            taskTypes: {
                [key: string]: string;
            };
            /** Totalpages */
            totalPages: number;
        };
        /** ChatIn */
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
             * @description Answer with server-sent events, a piece at a time.
             * @default false
             */
            stream: boolean;
        } & {
            [key: string]: unknown;
        };
        /** ClearedOut */
        ClearedOut: {
            /**
             * Removed
             * @description How many records are gone.
             */
            removed: number;
            /**
             * Success
             * @default true
             */
            success: boolean;
        };
        /** ClusterNode */
        ClusterNode: {
            /** Id */
            id: string;
            /** Name */
            name: string;
            /** Status */
            status: string;
            /** Status Reason */
            status_reason: string;
        };
        /** ClusterOut */
        ClusterOut: {
            /** Answered By */
            answered_by: string;
            /**
             * Degraded
             * @description What does not work now, as sentences.
             */
            degraded?: string[];
            /** Frontends */
            frontends: components["schemas"]["FrontendOut"][];
            leader: components["schemas"]["LeaderOut"];
            nats: components["schemas"]["PartOut"];
            /** Nodes */
            nodes: components["schemas"]["ClusterNode"][];
            postgres: components["schemas"]["PartOut"];
            /** Version */
            version: string;
        };
        /** CollectedFileOut */
        CollectedFileOut: {
            /** Sha256 */
            sha256: string;
            /** Size Bytes */
            size_bytes: number;
        };
        /** CollectedItemOut */
        CollectedItemOut: {
            /**
             * Name
             * @description Below the node's folder of backends.
             */
            name: string;
            /** Size Bytes */
            size_bytes: number;
        };
        /**
         * CollectedOut
         * @description What was thrown away on a node, or would be.
         */
        CollectedOut: {
            /**
             * Count
             * @description How many there are in all.
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
             * @description The largest ones.
             */
            items: components["schemas"]["CollectedItemOut"][];
            /** Message */
            message: string;
        };
        /** CompletionIn */
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
             * @description Answer with server-sent events, a piece at a time.
             * @default false
             */
            stream: boolean;
        } & {
            [key: string]: unknown;
        };
        /**
         * Condition
         * @description One fact about a node, with since when and why.
         */
        Condition: {
            /**
             * Holds
             * @description null: not known yet
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
         * CopyCheckOut
         * @description What a frontend knows of its own copy of a content.
         */
        CopyCheckOut: {
            /**
             * Is Right
             * @description Whether its bytes are right; null: they are being looked at.
             */
            is_right: boolean | null;
        };
        /** CredentialsIn */
        CredentialsIn: {
            /** Bus Public Key */
            bus_public_key: string;
        };
        /** CredentialsOut */
        CredentialsOut: {
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
        /** DiffOut */
        DiffOut: {
            /** Changes */
            changes: string[];
            /** Model */
            model: string;
            /** New */
            new: number;
            /** Old */
            old: number;
        };
        /** DriftOut */
        DriftOut: {
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
        /** EmbeddingsIn */
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
        /** ErrorBody */
        ErrorBody: {
            /**
             * Code
             * @description A stable slug for programs.
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
             * @description Find the request in the logs by this.
             */
            request_id?: string | null;
            /**
             * Type
             * @description Kept for scripts of the ancestor: node_error on node routes.
             * @default corral_error
             */
            type: string;
        };
        /** ErrorOut */
        ErrorOut: {
            error: components["schemas"]["ErrorBody"];
        };
        /**
         * EstimateOut
         * @description Empty, if nothing is known.
         */
        EstimateOut: {
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
        /** ExplainIn */
        ExplainIn: {
            /**
             * Model
             * @description A model's name or one of its aliases.
             */
            model: string;
        };
        /** ExplainOut */
        ExplainOut: {
            /**
             * Answered By
             * @description The frontend that has answered: each picks by what it knows itself.
             */
            answered_by: string;
            /**
             * Candidates
             * @description In the order in which they would be picked.
             */
            candidates: components["schemas"]["CandidateOut"][];
            /** Left Out */
            left_out?: components["schemas"]["LeftOutOut"][];
            /**
             * Message
             * @description What would happen, as a sentence.
             */
            message: string;
            /** Model */
            model: string;
            /**
             * Picked
             * @description The replica; null: the request would wait, for its turn or for a load.
             */
            picked: string | null;
            /** Policy */
            policy: string;
            /**
             * Waiting
             * @description Requests that wait for this model here, and would have their turn before.
             */
            waiting: number;
        };
        /**
         * ExternalIn
         * @description A backend that is in no gallery.
         */
        ExternalIn: {
            /**
             * Alias
             * @default
             */
            alias: string;
            /**
             * Ignore Capability
             * @description Also where the hardware does not ask for it.
             * @default false
             */
            ignore_capability: boolean;
            /**
             * Name
             * @description What it is to be called; OCI artifacts need one.
             * @default
             */
            name: string;
            /**
             * Nodes
             * @description Names or ids. Absent: every node that may have it.
             */
            nodes?: string[] | null;
            /**
             * Sha256
             * @description Of the file. Without it nobody checks what arrives.
             * @default
             */
            sha256: string;
            strategy?: components["schemas"]["StrategyIn"];
            /**
             * Uri
             * @description An archive, a wheel or an OCI artifact.
             */
            uri: string;
            /**
             * Version
             * @description Empty: the newest.
             * @default
             */
            version: string;
        };
        /** FileOut */
        FileOut: {
            /**
             * Created At
             * Format: date-time
             */
            created_at: string;
            /**
             * Holders
             * @description None: it has to be fetched again before a new node can have it.
             */
            holders: components["schemas"]["HolderOut"][];
            /**
             * Models
             * @description The models that are made of it; none: `collect` throws it away some day.
             */
            models: string[];
            /**
             * Nodes
             * @description Names of the nodes that have all of it.
             */
            nodes?: string[];
            /** Sha256 */
            sha256: string;
            /** Size Bytes */
            size_bytes: number;
        };
        /** FilesCollectedOut */
        FilesCollectedOut: {
            /**
             * Dry Run
             * @description Nothing was thrown away; this is what would have been.
             */
            dry_run: boolean;
            /** Files */
            files: components["schemas"]["CollectedFileOut"][];
            /** Freed Bytes */
            freed_bytes: number;
        };
        /** FilesOut */
        FilesOut: {
            /** Files */
            files: components["schemas"]["FileOut"][];
            /**
             * Next
             * @description Give it as `after` for the next page; null: this was the last one.
             */
            next: string | null;
        };
        /**
         * FileTakenOut
         * @description What was sent is here, whole and verified.
         */
        FileTakenOut: {
            /** Sha256 */
            sha256: string;
            /** Size Bytes */
            size_bytes: number;
        };
        /**
         * FittingOut
         * @description A node on which it would fit, too, with its cost.
         */
        FittingOut: {
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
         * FleetOut
         * @description What applying a file did, or would do.
         */
        FleetOut: {
            /** Plan */
            plan: boolean;
            /** Steps */
            steps: components["schemas"]["StepOut"][];
        };
        /**
         * Format
         * @enum {string}
         */
        Format: "json" | "csv";
        /** FrontendOut */
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
         * @description An entry of a gallery.
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
             * @description Only there when true.
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
             * @description Models that were made from it.
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
             * @description For people.
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
        /** GalleryOut */
        GalleryOut: {
            /**
             * Entries
             * @default 0
             */
            entries: number;
            /**
             * Fetched At
             * @description When its source last gave, or confirmed, the copy.
             */
            fetched_at?: string | null;
            /** Name */
            name: string;
            /**
             * Problem
             * @description What was wrong with the last try; the copy before stays in use.
             * @default
             */
            problem: string;
            /**
             * Url
             * @description Without a password. The built-in gallery has none.
             * @default
             */
            url: string;
        };
        /** GalleryPageOut */
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
        /** Gpu */
        Gpu: {
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
         * @description `POST /api/node/{id}/heartbeat`: every field may be absent, which leaves the last value.
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
            gpus?: components["schemas"]["Gpu"][] | null;
            /** System */
            system?: string | null;
            /**
             * Total Disk
             * @description The filesystem behind the models directory.
             */
            total_disk?: number | null;
            /** Total Ram */
            total_ram?: number | null;
            /** Total Vram */
            total_vram?: number | null;
            /** Unified Memory */
            unified_memory?: boolean | null;
        };
        /** HeartbeatOut */
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
         * @description A content; of one that is not whole, some chunks are there and verified.
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
         * @description A file of a model, as content.
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
         * @description A model whose files are all there.
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
        /** HistoryOut */
        HistoryOut: {
            /**
             * Next
             * @description Send it as `before` to read on; absent at the end.
             */
            next?: string | null;
            /** Operations */
            operations: components["schemas"]["RecordOut"][];
            /**
             * Stale
             * @description Why this is not the newest, when it is not.
             */
            stale?: string | null;
        };
        /** HolderOut */
        HolderOut: {
            /**
             * Is Shared
             * @description Every frontend and node can have it from there.
             */
            is_shared: boolean;
            /**
             * Name
             * @description A frontend's id, or the name of what all frontends share.
             */
            name: string;
        };
        /**
         * HoldingsIn
         * @description Everything that a worker runs and holds, at once: a process that is not in it does not run.
         */
        HoldingsIn: {
            /**
             * Are Files Complete
             * @description Whether models and blobs are all there are. If not, what is absent says nothing.
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
            processes?: components["schemas"]["ProcessIn"][];
        };
        /** ImageIn */
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
         * InstalledBackendOut
         * @description A backend that some node has. `Name`, `IsSystem`, `IsMeta` and `Nodes` are the ancestor's spelling.
         */
        InstalledBackendOut: {
            /**
             * Alias
             * @default
             */
            alias: string;
            /**
             * Available Version
             * @description What it could be upgraded to.
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
             * @description Never: what is installed is concrete.
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
            Nodes: components["schemas"]["InstalledOn"][];
            /**
             * Upgrade Summary
             * @description Which version is the newest, and which nodes have another one.
             * @default
             */
            upgrade_summary: string;
            /**
             * Version
             * @description What most nodes have.
             * @default
             */
            version: string;
        };
        /**
         * InstalledIn
         * @description One backend that a worker has.
         */
        InstalledIn: {
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
         * InstalledOn
         * @description One backend on one node, as its worker reported it.
         */
        InstalledOn: {
            /**
             * Digest
             * @default
             */
            digest: string;
            /**
             * Drifts
             * @description Not what most nodes have.
             * @default false
             */
            drifts: boolean;
            /**
             * Has Upgrade
             * @description This node is behind.
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
        /** InstallIn */
        InstallIn: {
            /**
             * Force
             * @description Fetch it again also where it is installed.
             * @default false
             */
            force: boolean;
            /**
             * Ignore Capability
             * @description Also where the hardware does not ask for it.
             * @default false
             */
            ignore_capability: boolean;
            /**
             * Nodes
             * @description Names or ids. Absent: every node that may have it.
             */
            nodes?: string[] | null;
            strategy?: components["schemas"]["StrategyIn"];
            /**
             * Version
             * @description Empty: the newest.
             * @default
             */
            version: string;
        };
        /**
         * InstallModelIn
         * @description How a gallery's entry becomes a model.
         */
        InstallModelIn: {
            /**
             * Name
             * @description Empty: as the entry.
             * @default
             */
            name: string;
            /**
             * Overrides
             * @description Settings laid over those of the entry.
             */
            overrides?: {
                [key: string]: unknown;
            };
            /**
             * Variant
             * @description Empty: the one that suits the nodes.
             * @default
             */
            variant: string;
        };
        /**
         * IntentOut
         * @description What a node still owes.
         */
        IntentOut: {
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
             * @description open, or dead after too many real failures
             */
            state: string;
            /**
             * Version
             * @default
             */
            version: string;
        };
        /**
         * JobOut
         * @description The ancestor's view of an operation.
         */
        JobOut: {
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
             * @description Ours, and more exact.
             */
            state: string;
        };
        /** JoinOut */
        JoinOut: {
            /**
             * Command
             * @description Installs Corral and starts its worker; {token} stands for a join token.
             */
            command: string;
            /**
             * Command Without Curl
             * @description The same, for a machine without curl.
             */
            command_without_curl: string;
            /**
             * Hint
             * @description What to do about the problem.
             */
            hint: string | null;
            /**
             * Problem
             * @description Why no other machine can reach it; null: others can.
             */
            problem: string | null;
            /**
             * Script Sha256
             * @description Of the script itself.
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
             * @description Of the wheel, which the script checks.
             */
            wheel_sha256: string;
            /**
             * Worker Command
             * @description Starts the worker where Corral is installed already.
             */
            worker_command: string;
        };
        /** KeyIn */
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
             * @description Patterns such as llama-*; null: every model.
             */
            models?: string[] | null;
            /** Name */
            name: string;
            /**
             * @description admin: everything; operate: nodes, engines, models, operations; infer: ask models
             * @default infer
             */
            scope: components["schemas"]["Scope"];
            /**
             * User
             * @description Whose it is; it can do no more than they may.
             */
            user?: string | null;
        };
        /** KeyMade */
        KeyMade: {
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
             * @description Patterns of what it may ask; null: every model.
             */
            models?: string[] | null;
            /** Name */
            name: string;
            /**
             * Node Id
             * @description The agent node that it belongs to.
             */
            node_id?: string | null;
            /** Prefix */
            prefix: string;
            /**
             * Previous Until
             * @description The secret before this one works until then.
             */
            previous_until?: string | null;
            /** Revoked At */
            revoked_at: string | null;
            /**
             * Scope
             * @description admin: everything; operate: nodes, engines, models, operations; infer: ask models
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
        /** KeyOut */
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
             * @description Patterns of what it may ask; null: every model.
             */
            models?: string[] | null;
            /** Name */
            name: string;
            /**
             * Node Id
             * @description The agent node that it belongs to.
             */
            node_id?: string | null;
            /** Prefix */
            prefix: string;
            /**
             * Previous Until
             * @description The secret before this one works until then.
             */
            previous_until?: string | null;
            /** Revoked At */
            revoked_at: string | null;
            /**
             * Scope
             * @description admin: everything; operate: nodes, engines, models, operations; infer: ask models
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
         * @description What shall be different; what is left out stays.
         */
        KeyPatch: {
            /**
             * Expires In S
             * @description From now on; null: it does not expire.
             */
            expires_in_s?: number | null;
            /**
             * Limits
             * @description These and no others.
             * @default []
             */
            limits: components["schemas"]["LimitIn"][];
            /**
             * Models
             * @description Patterns such as llama-*; null: every model.
             */
            models?: string[] | null;
            /**
             * Name
             * @default
             */
            name: string;
            /**
             * @description admin: everything; operate: nodes, engines, models, operations; infer: ask models
             * @default admin
             */
            scope: components["schemas"]["Scope"];
        };
        /**
         * KnownOut
         * @description For a choice of backends.
         */
        KnownOut: {
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
        /** LeaderOut */
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
             * @description Grows with each change of leader; guarded writes carry it.
             */
            term: number;
        };
        /**
         * LeftOutOut
         * @description A replica that is loaded and is given no requests.
         */
        LeftOutOut: {
            /** Node */
            node: string;
            /** Replica Id */
            replica_id: string;
            /** Sentence */
            sentence: string;
        };
        /**
         * LimitIn
         * @description How much a key may ask of one model, or of all together.
         */
        LimitIn: {
            /**
             * Model
             * @description The model's own name; empty: all models together.
             * @default
             */
            model: string;
            /** Requests Per Minute */
            requests_per_minute?: number | null;
            /**
             * Tokens Per Day
             * @description Of a calendar day in UTC.
             */
            tokens_per_day?: number | null;
            /** Tokens Per Minute */
            tokens_per_minute?: number | null;
            /**
             * Tokens Per Month
             * @description Of a calendar month in UTC.
             */
            tokens_per_month?: number | null;
        };
        /** LimitOut */
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
        /** LiveModel */
        LiveModel: {
            /** In Flight */
            in_flight: number;
            /** Name */
            name: string;
            pace?: components["schemas"]["PaceOut"];
            /** Replicas */
            replicas: components["schemas"]["LiveReplica"][];
            /**
             * Waiting
             * @description Requests that have no replica yet, of all frontends.
             */
            waiting: number;
        };
        /**
         * LiveOut
         * @description In `GET /api/stream` what is at its default is left out, and an absent pace is one of zeros.
         */
        LiveOut: {
            /**
             * Answered By
             * @description The frontend that has answered.
             */
            answered_by: string;
            /**
             * At
             * Format: date-time
             */
            at: string;
            /**
             * Degraded
             * @description What does not work now, as sentences.
             */
            degraded?: string[];
            /**
             * Frontends
             * @description How many frontends are in these numbers; one: those of the frontend that answers only.
             * @default 1
             */
            frontends: number;
            /**
             * Idle Models
             * @description Models that nobody asks for and that are not loaded.
             */
            idle_models: number;
            /**
             * Models
             * @description Those with replicas or requests; the busiest first.
             */
            models: components["schemas"]["LiveModel"][];
            pace?: components["schemas"]["PaceOut"];
            /**
             * Requests Open
             * @description Requests that have not ended.
             */
            requests_open: number;
            /**
             * Streams Open
             * @description How many of them are streams.
             */
            streams_open: number;
        };
        /** LiveReplica */
        LiveReplica: {
            /**
             * Breaker
             * @default closed
             */
            breaker: string;
            /** Id */
            id: string;
            /**
             * In Flight
             * @description Requests that it answers now, of all frontends.
             */
            in_flight: number;
            /** Index */
            index: number;
            /**
             * Node
             * @description Name of its node.
             */
            node: string;
            pace?: components["schemas"]["PaceOut"];
            /** State */
            state: string;
        };
        /** LoadedModelOut */
        LoadedModelOut: {
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
        /** LoadedOnOut */
        LoadedOnOut: {
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
         * LoadIn
         * @description Replicas more, each on another node.
         */
        LoadIn: {
            /**
             * Count
             * @description How many replicas more.
             * @default 1
             */
            count: number;
            /**
             * Nodes
             * @description Names or ids of nodes; absent: wherever it is best.
             */
            nodes?: string[] | null;
        };
        /**
         * LoadPlanOut
         * @description Where a model would go now, and why not elsewhere. Nothing was done.
         */
        LoadPlanOut: {
            /** Choices */
            choices?: components["schemas"]["PlacedOut"][];
            /**
             * Code
             * @description Of the refusal, if it has no place.
             * @default
             */
            code: string;
            /** Evicts */
            evicts?: components["schemas"]["VictimOut"][];
            /**
             * Fetches Files
             * @description A frontend has to fetch its files first.
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
             * @description Where it would fit, too; the best first.
             */
            others?: components["schemas"]["FittingOut"][];
            /**
             * Plan
             * @default true
             * @constant
             */
            plan: true;
            /** Refused */
            refused?: components["schemas"]["NotThereOut"][];
            /** Warnings */
            warnings?: string[];
        };
        /**
         * LoadStatusOut
         * @description How far a load is. What is not known is absent.
         */
        LoadStatusOut: {
            /** Bytes Sent */
            bytes_sent?: number | null;
            /** Eta Seconds */
            eta_seconds?: number | null;
            /**
             * File Index
             * @description Which of the model's files that is, from 1.
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
             * @description 0 to 100, over all files.
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
         * LoginIn
         * @description Either a name and its password, or a key.
         */
        LoginIn: {
            /**
             * Key
             * @description An API key; the session may what it may, and ends with it.
             */
            key?: string | null;
            /** Name */
            name?: string | null;
            /** Password */
            password?: string | null;
        };
        /** LogLineOut */
        LogLineOut: {
            /** At */
            at: string;
            /** Number */
            number: number;
            /** Stream */
            stream: string;
            /** Text */
            text: string;
        };
        /** LogOut */
        LogOut: {
            /**
             * First
             * @description The oldest line that is still there.
             */
            first: number;
            /** Key */
            key: string;
            /** Lines */
            lines: components["schemas"]["LogLineOut"][];
            /**
             * Next
             * @description Ask for lines after this one.
             */
            next: number;
        };
        /** MemoryInfoOut */
        MemoryInfoOut: {
            /**
             * Rss
             * @description Resident memory in bytes.
             */
            rss: number;
        };
        /**
         * MeOut
         * @description Who one is.
         */
        MeOut: {
            /**
             * Key Id
             * @description null: a session
             */
            key_id: string | null;
            /** Limits */
            limits: components["schemas"]["LimitOut"][];
            /**
             * Models
             * @description Patterns of what may be asked; null: every model.
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
             * @description admin: everything; operate: nodes, engines, models, operations; infer: ask models
             */
            scope: string;
            /** User Id */
            user_id: string | null;
        };
        /** MessageOut */
        MessageOut: {
            /** Message */
            message: string;
        };
        /**
         * ModelNameIn
         * @description As the ancestor's clients send it.
         */
        ModelNameIn: {
            /** Model */
            model: string;
        };
        /** ModelObject */
        ModelObject: {
            /**
             * Created
             * @description Seconds since 1970.
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
        /** ModelOut */
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
             * @description What the headers of its files say.
             */
            facts?: {
                [key: string]: unknown;
            } | null;
            /**
             * Files
             * @description null: they have not been fetched yet.
             */
            files?: components["schemas"]["StoredFileOut"][] | null;
            /**
             * Gallery
             * @description The entry that it was made from.
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
            replicas?: components["schemas"]["PlaceOut"][];
            /** Revision */
            revision: number;
            /**
             * Run Hash
             * @description What an engine notices of it; replicas with another one get no requests.
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
         * @description What an installation would make. Nothing was done.
         */
        ModelPlanOut: {
            /** Backend */
            backend: string;
            /** Changes */
            changes?: string[];
            /**
             * Checked
             * @description The sources of its files were asked, and have them.
             * @default false
             */
            checked: boolean;
            /** Config */
            config: {
                [key: string]: unknown;
            };
            /**
             * Exists
             * @description There is a model of this name already; it would be changed.
             */
            exists: boolean;
            /**
             * Fits On
             * @description Nodes with room for it. null: not asked.
             */
            fits_on?: string[] | null;
            /**
             * Memory Bytes
             * @description About what a replica takes; null: not known.
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
        /** ModelsOut */
        ModelsOut: {
            /** Data */
            data: components["schemas"]["ModelObject"][];
            /**
             * Object
             * @default list
             */
            object: string;
        };
        /**
         * MonitoredProcessOut
         * @description One engine process with its node.
         */
        MonitoredProcessOut: {
            /** Address */
            address: string;
            /** Backend */
            backend: string;
            /**
             * Cpu Percent
             * @description Use of the processors just now; 100 is one of them.
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
         * MonitorOut
         * @description Memory and processor of a model's engines: in all, as LocalAI tells them, and one by one.
         */
        MonitorOut: {
            /**
             * Cpu Percent
             * @description 100 is one processor.
             */
            cpu_percent: number;
            memory_info: components["schemas"]["MemoryInfoOut"];
            /**
             * Memory Percent
             * @description Of the memory of the nodes that run them.
             */
            memory_percent: number;
            /**
             * Model
             * @default
             */
            model: string;
            /** Processes */
            processes?: components["schemas"]["MonitoredProcessOut"][];
            /**
             * Unreachable
             * @description Nodes that did not answer, and why.
             */
            unreachable?: {
                [key: string]: string;
            };
        };
        /** NodeBackendIn */
        NodeBackendIn: {
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
         * NodeBackendOut
         * @description One backend of one node.
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
             * @description The ancestor's name for `gallery`.
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
         * NodeInstallIn
         * @description `backend` from a gallery, or a `uri` with a name.
         */
        NodeInstallIn: {
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
             * @description Of the ancestor. Galleries are a setting of the frontends; leave it empty.
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
         * NodeModelIn
         * @description A model on one node, as LocalAI's clients name it.
         */
        NodeModelIn: {
            /**
             * Force
             * @description Do not wait for what is being answered.
             * @default false
             */
            force: boolean;
            /** Model Name */
            model_name: string;
        };
        /**
         * NodeOut
         * @description A node as admins see it. `status` is computed from the conditions; nothing stores it.
         */
        NodeOut: {
            /** Address */
            address: string;
            /**
             * Address Note
             * @description A sentence if it registered another host than the one it was seen at; else empty.
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
            conditions: components["schemas"]["Condition"][];
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
            gpus?: components["schemas"]["Gpu"][] | null;
            /**
             * Held Threads
             * @description Threads handed out to the replicas that are here, of `cpu_threads` in all.
             * @default 0
             */
            held_threads: number;
            /** Http Address */
            http_address: string;
            /** Id */
            id: string;
            /**
             * In Flight Count
             * @description Requests that its replicas answer, of all frontends: at most a second old while all of them tell their numbers, which they do while somebody looks; else as of their leases, at most two seconds old.
             * @default 0
             */
            in_flight_count: number;
            /**
             * Label Sources
             * @description auto, worker or admin, by key
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
             * @description Loaded replicas.
             * @default 0
             */
            model_count: number;
            /** Name */
            name: string;
            /** Node Type */
            node_type: string;
            /**
             * Proposed Labels
             * @description What the worker sends and no admin has approved: it counts for no selector and no rule.
             */
            proposed_labels?: {
                [key: string]: string;
            };
            /**
             * Reported Available Vram
             * @description Before the budget is applied.
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
             * @description The host that its last registration came from.
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
             * @description The filesystem behind the models directory.
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
         * NodeUpgradeOut
         * @description What an upgrade would change on one node.
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
         * NoteOut
         * @description A line of an operation's log.
         */
        NoteOut: {
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
         * NotThereOut
         * @description Why it would not go to a node.
         */
        NotThereOut: {
            /** Node Id */
            node_id: string;
            /** Node Name */
            node_name: string;
            /** Reason */
            reason: string;
            /** Sentence */
            sentence: string;
        };
        /** OperationInFull */
        OperationInFull: {
            /**
             * Afterid
             * @description Runs when that one has ended.
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
             * @description With them.
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
             * @description Nobody saw it fail; a true outcome may still replace this.
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
             * @description Without gallery and node.
             */
            name: string;
            /**
             * Nodeid
             * @description Only of an operation on exactly one node.
             */
            nodeID?: string | null;
            /** Nodename */
            nodeName?: string | null;
            /** Nodes */
            nodes?: components["schemas"]["TargetInFull"][];
            /**
             * Owner
             * @description The frontend that drives it now.
             */
            owner?: string | null;
            /** Phase */
            phase?: string | null;
            /**
             * Progress
             * @description 0 to 100
             */
            progress: number;
            /**
             * Request
             * @description Everything that was asked for; a retry asks for the same.
             */
            request: {
                [key: string]: unknown;
            };
            /** Retryof */
            retryOf?: string | null;
            /**
             * Rev
             * @description Grows with every change; whoever holds a larger one has the newer state.
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
         * OperationOut
         * @description An operation as the live list has it.
         */
        OperationOut: {
            /**
             * Afterid
             * @description Runs when that one has ended.
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
             * @description With them.
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
             * @description Without gallery and node.
             */
            name: string;
            /**
             * Nodeid
             * @description Only of an operation on exactly one node.
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
             * @description 0 to 100
             */
            progress: number;
            /** Retryof */
            retryOf?: string | null;
            /**
             * Rev
             * @description Grows with every change; whoever holds a larger one has the newer state.
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
        /** OperationsOut */
        OperationsOut: {
            /** Operations */
            operations: components["schemas"]["OperationOut"][];
        };
        /**
         * PaceOut
         * @description How fast something goes, through all frontends: rates of the last ten seconds, times of the last minute.
         */
        PaceOut: {
            /**
             * Errors Per S
             * @description Those that the client is not to blame for.
             * @default 0
             */
            errors_per_s: number;
            first_byte_s?: components["schemas"]["SpreadOut"];
            inter_token_s?: components["schemas"]["SpreadOut"];
            /**
             * Prompt Tokens Per S
             * @default 0
             */
            prompt_tokens_per_s: number;
            queue_s?: components["schemas"]["SpreadOut"];
            /**
             * Requests Per S
             * @default 0
             */
            requests_per_s: number;
            /**
             * Tokens Per S
             * @description Tokens as they are written, also of answers under way.
             * @default 0
             */
            tokens_per_s: number;
        };
        /** PartOut */
        PartOut: {
            /**
             * Detail
             * @default
             */
            detail: string;
            /** State */
            state: string;
        };
        /**
         * PastOut
         * @description Curves: as many values for each name as there are times. Null: not known at that time.
         */
        PastOut: {
            /**
             * At
             * @description Seconds since 1970.
             */
            at: number[];
            /** Series */
            series: {
                [key: string]: (number | null)[];
            };
            /**
             * Step S
             * @description How far the times are apart, about.
             */
            step_s: number;
        };
        /**
         * PlacedOut
         * @description A replica on a node. Seconds are an estimate.
         */
        PlacedOut: {
            /**
             * Backend
             * @default
             */
            backend: string;
            /**
             * Cost
             * @description What the choice was made by, in seconds.
             */
            cost?: {
                [key: string]: number;
            };
            /**
             * Fetch Bytes
             * @description What the node has still to get of the files.
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
             * @description Until it could answer.
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
         * PlaceOut
         * @description A replica of a model.
         */
        PlaceOut: {
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
             * @description False: of an older revision; it gets no requests.
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
        /** PlanIn */
        PlanIn: {
            /**
             * Count
             * @description How many replicas more.
             * @default 1
             */
            count: number;
            /** Model */
            model: string;
            /**
             * Nodes
             * @description Names or ids of nodes; absent: wherever it is best.
             */
            nodes?: string[] | null;
        };
        /** PlannedNodeOut */
        PlannedNodeOut: {
            /**
             * Backend
             * @description The concrete build that its hardware gets.
             */
            backend: string;
            /** Desired */
            desired: string;
            /**
             * Fetch Bytes
             * @description About how much it has to fetch; null: not known.
             */
            fetch_bytes?: number | null;
            /**
             * Has It
             * @description The node has what is asked for; nothing changes there.
             * @default false
             */
            has_it: boolean;
            /** Node Id */
            node_id: string;
            /** Node Name */
            node_name: string;
            /**
             * Node Status
             * @description An offline node gets it when it is back.
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
         * PlanOut
         * @description What would be done. Nothing was.
         */
        PlanOut: {
            /** Backend */
            backend: string;
            /**
             * Fetch Bytes
             * @description Over all nodes; null when one is not known.
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
            skipped?: components["schemas"]["SkippedOut"][];
        };
        /** PrefetchEntryOut */
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
             * @description The operation that brings it, if there is one.
             */
            operation_id?: string | null;
            /**
             * State
             * @description present, requested or refused. What is refused may be asked for again later.
             */
            state: string;
        };
        /**
         * PrefetchIn
         * @description What a worker wants on the disk of its own machine.
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
        /** PrefetchOut */
        PrefetchOut: {
            /** Entries */
            entries: components["schemas"]["PrefetchEntryOut"][];
        };
        /**
         * ProbeOut
         * @description What the node itself answers over the bus.
         */
        ProbeOut: {
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
         * ProcessIn
         * @description One engine that runs; as `bus.messages.RunningProcess`.
         */
        ProcessIn: {
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
             * @description The run hash that it was loaded with; empty if it was started by hand.
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
             * @description The ticket of its load; without one, a process that is not registered is ended.
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
        /** ProcessOut */
        ProcessOut: {
            /** Address */
            address: string;
            /** Backend */
            backend: string;
            /**
             * Cpu Percent
             * @description Use of the processors just now; 100 is one of them.
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
         * RecordOut
         * @description An operation that has ended.
         */
        RecordOut: {
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
             * @description How many nodes it was for; 0 if it ended before any was chosen.
             * @default 0
             */
            nodeCount: number;
            /** Nodeid */
            nodeID?: string | null;
            /** Nodename */
            nodeName?: string | null;
            /**
             * Nodes
             * @description Names of the nodes that it was for, as they were then; the first twenty.
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
        /** RefreshOut */
        RefreshOut: {
            /**
             * Galleries
             * @description As they are known now; look again in a moment.
             */
            galleries: components["schemas"]["GalleryOut"][];
            /** Message */
            message: string;
        };
        /** RefusedOut */
        RefusedOut: {
            /** Backend */
            backend: string;
            /** Code */
            code: string;
            /** Message */
            message: string;
        };
        /**
         * RegisterIn
         * @description `POST /api/node/register`: a worker presents itself, the first time and after every start.
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
             * @description The secret that the worker made for itself; only its hash is kept.
             */
            credential: string;
            /** Gpu Compute Capability */
            gpu_compute_capability?: string | null;
            /** Gpu Vendor */
            gpu_vendor?: string | null;
            /** Gpus */
            gpus?: components["schemas"]["Gpu"][] | null;
            /**
             * Http Address
             * @default
             */
            http_address: string;
            /**
             * Is Running Known
             * @description False while the worker still looks at the engines of its earlier process: no replica is removed, and its first report of holdings says which of them run.
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
             * @description Engines that are ready and outlived an earlier process of this worker: they go on answering.
             */
            running?: components["schemas"]["SurvivorIn"][];
            /** System */
            system?: string | null;
            /**
             * Token
             * @description A join token, if it is not sent as a bearer token.
             */
            token?: string | null;
            /**
             * Total Disk
             * @description The filesystem behind the models directory.
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
        /** RegisterOut */
        RegisterOut: {
            /**
             * Api Token
             * @description For agent nodes: an API key, told once.
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
             * @description Where the bus is; absent while the node is pending.
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
         * @description Old names to new ones; all or none.
         */
        RenameIn: {
            /** Names */
            names: {
                [key: string]: string;
            };
        };
        /** ReplicaOut */
        ReplicaOut: {
            /** Address */
            address: string;
            /**
             * Backend Type
             * @description The backend that its engine is of.
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
        /** RerankIn */
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
        /** ResponseIn */
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
             * @description Answer with server-sent events, a piece at a time.
             * @default false
             */
            stream: boolean;
        } & {
            [key: string]: unknown;
        };
        /**
         * RetryOut
         * @description `operation` is the new one.
         */
        RetryOut: {
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
        /** RevisionOut */
        RevisionOut: {
            /**
             * Changes
             * @description Against the one before it.
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
        /** RollbackIn */
        RollbackIn: {
            /** Revision */
            revision: number;
        };
        /** RotateIn */
        RotateIn: {
            /**
             * Grace S
             * @description How long the old secret still works; null: it stops at once.
             */
            grace_s?: number | null;
        };
        /**
         * RuleOut
         * @description A rule. `model_name`, `node_selector` and `spread_all` are the ancestor's names for the same.
         */
        RuleOut: {
            /**
             * Max Replicas
             * @description 0: no limit.
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
             * @description One replica on every node that matches.
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
             * @description Not tried again before; read only.
             */
            unsatisfiable_until?: string | null;
            /**
             * Warnings
             * @description What of the rule is stored and has no effect yet.
             */
            warnings?: string[];
            /** Windows */
            windows?: {
                [key: string]: unknown;
            }[];
        };
        /**
         * SavedOut
         * @description What became of a model. The fields of the ancestor are `config_revision` and `pending_cleanup`.
         */
        SavedOut: {
            /**
             * Changes
             * @description One line for each setting; none: no new revision.
             */
            changes?: string[];
            /**
             * Config Revision
             * @description The run hash.
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
             * @description Replicas of the old revision are being ended.
             * @default false
             */
            pending_cleanup: boolean;
            /** Revision */
            revision: number;
            /**
             * Stopped
             * @description How many.
             * @default 0
             */
            stopped: number;
            /** Warnings */
            warnings?: string[];
        };
        /**
         * Scope
         * @description What a key or a user may do. Each includes those after it.
         * @enum {string}
         */
        Scope: "admin" | "operate" | "infer";
        /** SettingOut */
        SettingOut: {
            /**
             * Is Live
             * @description It can be changed while frontends run: `POST /api/settings`, unless `source` wins.
             * @default false
             */
            is_live: boolean;
            /**
             * Is Secret
             * @description Its value is never told.
             */
            is_secret: boolean;
            /** Name */
            name: string;
            /**
             * Section
             * @description What it is about.
             */
            section: string;
            /**
             * Sentence
             * @description What it does.
             */
            sentence: string;
            /**
             * Source
             * @description Where it came from.
             */
            source: string;
            /**
             * Value
             * @description As it would be written. Null: not set, and there is no default.
             */
            value: string | null;
        };
        /** SettingsOut */
        SettingsOut: {
            /**
             * Answered By
             * @description The frontend whose settings these are; others may have been given others.
             */
            answered_by: string;
            /** Settings */
            settings: components["schemas"]["SettingOut"][];
        };
        /** SkippedOut */
        SkippedOut: {
            /** Node Id */
            node_id: string;
            /** Node Name */
            node_name: string;
            /** Reason */
            reason: string;
        };
        /** SlotsIn */
        SlotsIn: {
            /** Value */
            value: number;
        };
        /** SlotsOut */
        SlotsOut: {
            /** Max Replicas Per Model */
            max_replicas_per_model: number;
            /**
             * Reset
             * @default false
             */
            reset: boolean;
        };
        /** SpeechIn */
        SpeechIn: {
            /**
             * Input
             * @description What is to be spoken.
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
         * SpreadOut
         * @description Seconds. Null: nothing of the kind happened in the last minute.
         */
        SpreadOut: {
            /** P50 */
            p50?: number | null;
            /** P95 */
            p95?: number | null;
        };
        /**
         * StartedOut
         * @description The worker has the job; `state` is where it is.
         */
        StartedOut: {
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
         * StartIn
         * @description Run an engine on a node. Without a model it is only tried out.
         */
        StartIn: {
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
        /** StepOut */
        StepOut: {
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
             * @description Replicas that end because of it.
             * @default 0
             */
            stopped: number;
        };
        /**
         * StopIn
         * @description Exactly one of the three.
         */
        StopIn: {
            /**
             * All
             * @description Everything that runs there.
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
        /** StoppedOut */
        StoppedOut: {
            /** Message */
            message: string;
            /**
             * Stopped
             * @description Have ended.
             */
            stopped: string[];
            /**
             * Survivors
             * @description Could not be ended and go on running.
             */
            survivors?: string[];
        };
        /** StoredFileOut */
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
         * @description How a fan-out goes over its nodes.
         */
        StrategyIn: {
            /**
             * Deadline
             * @description How long an absent node may owe it: 90s, 30m, 1h, 7d. Absent: for ever.
             */
            deadline?: string | null;
            /**
             * Rollback
             * @description After a failure changed nodes go back to what they had.
             * @default false
             */
            rollback: boolean;
            /**
             * Stop On Failure
             * @description After a failure later waves are not begun.
             * @default false
             */
            stop_on_failure: boolean;
            /**
             * Waves
             * @description How many nodes each wave has; the last number repeats. Empty: all at once.
             */
            waves?: number[];
        };
        /** SumsOut */
        SumsOut: {
            /**
             * Cached Tokens
             * @description Of the prompts' tokens, those that engines had in their cache.
             */
            cached_tokens: number;
            /** Completion Tokens */
            completion_tokens: number;
            /**
             * Errors
             * @description Of these, those that ended with an error.
             */
            errors: number;
            /**
             * Estimated Tokens
             * @description Of the answers' tokens, those that were counted by events, because the engine did not tell.
             */
            estimated_tokens: number;
            /** Prompt Tokens */
            prompt_tokens: number;
            /**
             * Requests
             * @description Those that reached a replica, or failed in the gateway or the engine.
             */
            requests: number;
        };
        /**
         * SurvivorIn
         * @description An engine that outlived the worker which started it.
         */
        SurvivorIn: {
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
         * SystemOut
         * @description What is installed and loaded in this cluster.
         */
        SystemOut: {
            /**
             * Backends
             * @description Names of the backends that a node has.
             */
            backends: string[];
            /** Loaded Models */
            loaded_models: components["schemas"]["LoadedModelOut"][];
        };
        /**
         * TakenOut
         * @description What a report of a worker changed: keys of processes.
         */
        TakenOut: {
            /** Adopted */
            adopted?: string[];
            /** Removed */
            removed?: string[];
            /** Stopping */
            stopping?: string[];
        };
        /** TargetInFull */
        TargetInFull: {
            /**
             * Attempt
             * @default 0
             */
            attempt: number;
            /**
             * Begun
             * @description Whether its worker was ever told.
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
             * @description The worker's own unit of work.
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
             * @description The ancestor's word: queued, downloading, running_on_worker, success, error; else as `state`.
             */
            status: string;
            /**
             * Stop Wanted
             * @description The worker has still to be told to stop.
             * @default false
             */
            stop_wanted: boolean;
            /** Total */
            total?: number | null;
            /**
             * Version
             * @description The version that it is to have.
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
         * @description One node of an operation.
         */
        TargetOut: {
            /**
             * Attempt
             * @default 0
             */
            attempt: number;
            /**
             * Begun
             * @description Whether its worker was ever told.
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
             * @description The ancestor's word: queued, downloading, running_on_worker, success, error; else as `state`.
             */
            status: string;
            /** Total */
            total?: number | null;
            /**
             * Version
             * @description The version that it is to have.
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
         * @description On which nodes, and how over them.
         */
        TargetsIn: {
            /**
             * Nodes
             * @description Names or ids. Absent: every node that may have it.
             */
            nodes?: string[] | null;
            strategy?: components["schemas"]["StrategyIn"];
        };
        /** TokenIn */
        TokenIn: {
            /**
             * Approves
             * @description Machines that join with it are approved at once.
             * @default false
             */
            approves: boolean;
            /**
             * Expires In S
             * @description null: it does not expire
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
        /** TokenMade */
        TokenMade: {
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
        /** TokenOut */
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
         * @description End replicas.
         */
        UnloadIn: {
            /**
             * Delete Files
             * @description These nodes also remove their copies of the files. The model stays.
             * @default false
             */
            delete_files: boolean;
            /**
             * Force
             * @description Do not wait for what is being answered.
             * @default false
             */
            force: boolean;
            /**
             * Nodes
             * @description Names or ids of nodes; absent: everywhere.
             */
            nodes?: string[] | null;
        };
        /** UpgradeOut */
        UpgradeOut: {
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
             * @description What most nodes have.
             * @default
             */
            installed_version: string;
            /** Node Drift */
            node_drift?: components["schemas"]["DriftOut"][];
            /**
             * Nodes
             * @description Nodes that are behind. None: nodes differ, and no gallery has more.
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
         * UpgradesAppliedOut
         * @description One operation for each backend that had an upgrade.
         */
        UpgradesAppliedOut: {
            /** Operations */
            operations: components["schemas"]["AdmittedOut"][];
            /** Refused */
            refused?: components["schemas"]["RefusedOut"][];
        };
        /**
         * UriIn
         * @description The ancestor's body of `POST /models/import-uri`.
         */
        UriIn: {
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
        /** UsageOut */
        UsageOut: {
            /** By */
            by: string[];
            /**
             * Is Cut
             * @description There are more rows; as CSV all of them are told.
             * @default false
             */
            is_cut: boolean;
            /**
             * Rows
             * @description In the order of what they are told by.
             */
            rows: components["schemas"]["UsageRowOut"][];
            /**
             * Since
             * Format: date-time
             */
            since: string;
            total: components["schemas"]["SumsOut"];
            /**
             * Until
             * @description Absent: until now.
             */
            until?: string | null;
        };
        /** UsageRowOut */
        UsageRowOut: {
            /**
             * At
             * @description The beginning of the day or hour, in UTC.
             */
            at?: string | null;
            /**
             * Cached Tokens
             * @description Of the prompts' tokens, those that engines had in their cache.
             */
            cached_tokens: number;
            /** Call */
            call?: string | null;
            /** Completion Tokens */
            completion_tokens: number;
            /**
             * Errors
             * @description Of these, those that ended with an error.
             */
            errors: number;
            /**
             * Estimated Tokens
             * @description Of the answers' tokens, those that were counted by events, because the engine did not tell.
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
             * @description The name that it had then; empty: no node was reached.
             */
            node?: string | null;
            /** Prompt Tokens */
            prompt_tokens: number;
            /**
             * Requests
             * @description Those that reached a replica, or failed in the gateway or the engine.
             */
            requests: number;
            /** User */
            user?: string | null;
        };
        /** UserIn */
        UserIn: {
            /** Name */
            name: string;
            /**
             * Password
             * @description Without one they hold keys, but cannot log in.
             */
            password?: string | null;
            /**
             * @description admin: everything; operate: nodes, engines, models, operations; infer: ask models
             * @default infer
             */
            scope: components["schemas"]["Scope"];
        };
        /** UserOut */
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
             * @description The provider that vouches for them; empty: none.
             */
            issuer: string;
            /** Name */
            name: string;
            /**
             * Scope
             * @description admin: everything; operate: nodes, engines, models, operations; infer: ask models
             */
            scope: string;
        };
        /**
         * UserPatch
         * @description What shall be different; what is left out stays.
         */
        UserPatch: {
            /**
             * Disabled
             * @description Their keys and sessions stop at once.
             */
            disabled?: boolean | null;
            /**
             * Password
             * @description Ends the sessions of the old one.
             */
            password?: string | null;
            /** @description admin: everything; operate: nodes, engines, models, operations; infer: ask models */
            scope?: components["schemas"]["Scope"] | null;
        };
        /** VariantOut */
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
        /** VariantsOut */
        VariantsOut: {
            /** Auto Selected */
            auto_selected: string;
            /** Variants */
            variants: components["schemas"]["VariantOut"][];
            /** Warnings */
            warnings?: string[];
        };
        /**
         * VictimOut
         * @description A replica that would have to go.
         */
        VictimOut: {
            /** Index */
            index: number;
            /** Model */
            model: string;
            /** Node Id */
            node_id: string;
        };
        /** WaysOut */
        WaysOut: {
            /** Password */
            password: boolean;
            /**
             * Provider
             * @description Who vouches for people who begin at /api/session/oidc; null: nobody.
             */
            provider: string | null;
        };
        /** WishIn */
        WishIn: {
            /**
             * Ignore Capability
             * @description Also where the hardware does not ask for it.
             * @default false
             */
            ignore_capability: boolean;
            /**
             * Nodes
             * @description Names or ids. Absent: every node that may have it.
             */
            nodes?: string[] | null;
            strategy?: components["schemas"]["StrategyIn"];
            /**
             * Version
             * @description Empty: the newest.
             * @default
             */
            version: string;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type ActionOut = components['schemas']['ActionOut'];
export type AdmittedOut = components['schemas']['AdmittedOut'];
export type AnswerOut = components['schemas']['AnswerOut'];
export type ApplyIn = components['schemas']['ApplyIn'];
export type ApplyModelIn = components['schemas']['ApplyModelIn'];
export type ApproveIn = components['schemas']['ApproveIn'];
export type ApproveOut = components['schemas']['ApproveOut'];
export type AskedModelOut = components['schemas']['AskedModelOut'];
export type AuditEntryOut = components['schemas']['AuditEntryOut'];
export type AuditOut = components['schemas']['AuditOut'];
export type BackendsReportIn = components['schemas']['BackendsReportIn'];
export type BootIn = components['schemas']['BootIn'];
export type BudgetIn = components['schemas']['BudgetIn'];
export type BudgetOut = components['schemas']['BudgetOut'];
export type BuildOut = components['schemas']['BuildOut'];
export type CandidateOut = components['schemas']['CandidateOut'];
export type CapabilitiesListOut = components['schemas']['CapabilitiesListOut'];
export type CapabilitiesOut = components['schemas']['CapabilitiesOut'];
export type CatalogEntryOut = components['schemas']['CatalogEntryOut'];
export type CatalogPageOut = components['schemas']['CatalogPageOut'];
export type ChatIn = components['schemas']['ChatIn'];
export type ClearedOut = components['schemas']['ClearedOut'];
export type ClusterNode = components['schemas']['ClusterNode'];
export type ClusterOut = components['schemas']['ClusterOut'];
export type CollectedFileOut = components['schemas']['CollectedFileOut'];
export type CollectedItemOut = components['schemas']['CollectedItemOut'];
export type CollectedOut = components['schemas']['CollectedOut'];
export type CompletionIn = components['schemas']['CompletionIn'];
export type Condition = components['schemas']['Condition'];
export type CopyCheckOut = components['schemas']['CopyCheckOut'];
export type CredentialsIn = components['schemas']['CredentialsIn'];
export type CredentialsOut = components['schemas']['CredentialsOut'];
export type DiffOut = components['schemas']['DiffOut'];
export type DriftOut = components['schemas']['DriftOut'];
export type EmbeddingsIn = components['schemas']['EmbeddingsIn'];
export type ErrorBody = components['schemas']['ErrorBody'];
export type ErrorOut = components['schemas']['ErrorOut'];
export type EstimateOut = components['schemas']['EstimateOut'];
export type ExplainIn = components['schemas']['ExplainIn'];
export type ExplainOut = components['schemas']['ExplainOut'];
export type ExternalIn = components['schemas']['ExternalIn'];
export type FileOut = components['schemas']['FileOut'];
export type FilesCollectedOut = components['schemas']['FilesCollectedOut'];
export type FilesOut = components['schemas']['FilesOut'];
export type FileTakenOut = components['schemas']['FileTakenOut'];
export type FittingOut = components['schemas']['FittingOut'];
export type FleetOut = components['schemas']['FleetOut'];
export type Format = components['schemas']['Format'];
export type FrontendOut = components['schemas']['FrontendOut'];
export type GalleryModelOut = components['schemas']['GalleryModelOut'];
export type GalleryOut = components['schemas']['GalleryOut'];
export type GalleryPageOut = components['schemas']['GalleryPageOut'];
export type Gpu = components['schemas']['Gpu'];
export type HeartbeatIn = components['schemas']['HeartbeatIn'];
export type HeartbeatOut = components['schemas']['HeartbeatOut'];
export type HeldBlobIn = components['schemas']['HeldBlobIn'];
export type HeldFileIn = components['schemas']['HeldFileIn'];
export type HeldModelIn = components['schemas']['HeldModelIn'];
export type HistoryOut = components['schemas']['HistoryOut'];
export type HolderOut = components['schemas']['HolderOut'];
export type HoldingsIn = components['schemas']['HoldingsIn'];
export type ImageIn = components['schemas']['ImageIn'];
export type InstalledBackendOut = components['schemas']['InstalledBackendOut'];
export type InstalledIn = components['schemas']['InstalledIn'];
export type InstalledOn = components['schemas']['InstalledOn'];
export type InstallIn = components['schemas']['InstallIn'];
export type InstallModelIn = components['schemas']['InstallModelIn'];
export type IntentOut = components['schemas']['IntentOut'];
export type JobOut = components['schemas']['JobOut'];
export type JoinOut = components['schemas']['JoinOut'];
export type KeyIn = components['schemas']['KeyIn'];
export type KeyMade = components['schemas']['KeyMade'];
export type KeyOut = components['schemas']['KeyOut'];
export type KeyPatch = components['schemas']['KeyPatch'];
export type KnownOut = components['schemas']['KnownOut'];
export type LeaderOut = components['schemas']['LeaderOut'];
export type LeftOutOut = components['schemas']['LeftOutOut'];
export type LimitIn = components['schemas']['LimitIn'];
export type LimitOut = components['schemas']['LimitOut'];
export type LiveModel = components['schemas']['LiveModel'];
export type LiveOut = components['schemas']['LiveOut'];
export type LiveReplica = components['schemas']['LiveReplica'];
export type LoadedModelOut = components['schemas']['LoadedModelOut'];
export type LoadedOnOut = components['schemas']['LoadedOnOut'];
export type LoadIn = components['schemas']['LoadIn'];
export type LoadPlanOut = components['schemas']['LoadPlanOut'];
export type LoadStatusOut = components['schemas']['LoadStatusOut'];
export type LoginIn = components['schemas']['LoginIn'];
export type LogLineOut = components['schemas']['LogLineOut'];
export type LogOut = components['schemas']['LogOut'];
export type MemoryInfoOut = components['schemas']['MemoryInfoOut'];
export type MeOut = components['schemas']['MeOut'];
export type MessageOut = components['schemas']['MessageOut'];
export type ModelNameIn = components['schemas']['ModelNameIn'];
export type ModelObject = components['schemas']['ModelObject'];
export type ModelOut = components['schemas']['ModelOut'];
export type ModelPlanOut = components['schemas']['ModelPlanOut'];
export type ModelsOut = components['schemas']['ModelsOut'];
export type MonitoredProcessOut = components['schemas']['MonitoredProcessOut'];
export type MonitorOut = components['schemas']['MonitorOut'];
export type NodeBackendIn = components['schemas']['NodeBackendIn'];
export type NodeBackendOut = components['schemas']['NodeBackendOut'];
export type NodeInstallIn = components['schemas']['NodeInstallIn'];
export type NodeModelIn = components['schemas']['NodeModelIn'];
export type NodeOut = components['schemas']['NodeOut'];
export type NodeUpgradeOut = components['schemas']['NodeUpgradeOut'];
export type NoteOut = components['schemas']['NoteOut'];
export type NotThereOut = components['schemas']['NotThereOut'];
export type OperationInFull = components['schemas']['OperationInFull'];
export type OperationOut = components['schemas']['OperationOut'];
export type OperationsOut = components['schemas']['OperationsOut'];
export type PaceOut = components['schemas']['PaceOut'];
export type PartOut = components['schemas']['PartOut'];
export type PastOut = components['schemas']['PastOut'];
export type PlacedOut = components['schemas']['PlacedOut'];
export type PlaceOut = components['schemas']['PlaceOut'];
export type PlanIn = components['schemas']['PlanIn'];
export type PlannedNodeOut = components['schemas']['PlannedNodeOut'];
export type PlanOut = components['schemas']['PlanOut'];
export type PrefetchEntryOut = components['schemas']['PrefetchEntryOut'];
export type PrefetchIn = components['schemas']['PrefetchIn'];
export type PrefetchOut = components['schemas']['PrefetchOut'];
export type ProbeOut = components['schemas']['ProbeOut'];
export type ProcessIn = components['schemas']['ProcessIn'];
export type ProcessOut = components['schemas']['ProcessOut'];
export type RecordOut = components['schemas']['RecordOut'];
export type RefreshOut = components['schemas']['RefreshOut'];
export type RefusedOut = components['schemas']['RefusedOut'];
export type RegisterIn = components['schemas']['RegisterIn'];
export type RegisterOut = components['schemas']['RegisterOut'];
export type RenameIn = components['schemas']['RenameIn'];
export type ReplicaOut = components['schemas']['ReplicaOut'];
export type RerankIn = components['schemas']['RerankIn'];
export type ResponseIn = components['schemas']['ResponseIn'];
export type RetryOut = components['schemas']['RetryOut'];
export type RevisionOut = components['schemas']['RevisionOut'];
export type RollbackIn = components['schemas']['RollbackIn'];
export type RotateIn = components['schemas']['RotateIn'];
export type RuleOut = components['schemas']['RuleOut'];
export type SavedOut = components['schemas']['SavedOut'];
export type Scope = components['schemas']['Scope'];
export type SettingOut = components['schemas']['SettingOut'];
export type SettingsOut = components['schemas']['SettingsOut'];
export type SkippedOut = components['schemas']['SkippedOut'];
export type SlotsIn = components['schemas']['SlotsIn'];
export type SlotsOut = components['schemas']['SlotsOut'];
export type SpeechIn = components['schemas']['SpeechIn'];
export type SpreadOut = components['schemas']['SpreadOut'];
export type StartedOut = components['schemas']['StartedOut'];
export type StartIn = components['schemas']['StartIn'];
export type StepOut = components['schemas']['StepOut'];
export type StopIn = components['schemas']['StopIn'];
export type StoppedOut = components['schemas']['StoppedOut'];
export type StoredFileOut = components['schemas']['StoredFileOut'];
export type StrategyIn = components['schemas']['StrategyIn'];
export type SumsOut = components['schemas']['SumsOut'];
export type SurvivorIn = components['schemas']['SurvivorIn'];
export type SystemOut = components['schemas']['SystemOut'];
export type TakenOut = components['schemas']['TakenOut'];
export type TargetInFull = components['schemas']['TargetInFull'];
export type TargetOut = components['schemas']['TargetOut'];
export type TargetsIn = components['schemas']['TargetsIn'];
export type TokenIn = components['schemas']['TokenIn'];
export type TokenMade = components['schemas']['TokenMade'];
export type TokenOut = components['schemas']['TokenOut'];
export type UnloadIn = components['schemas']['UnloadIn'];
export type UpgradeOut = components['schemas']['UpgradeOut'];
export type UpgradesAppliedOut = components['schemas']['UpgradesAppliedOut'];
export type UriIn = components['schemas']['UriIn'];
export type UsageOut = components['schemas']['UsageOut'];
export type UsageRowOut = components['schemas']['UsageRowOut'];
export type UserIn = components['schemas']['UserIn'];
export type UserOut = components['schemas']['UserOut'];
export type UserPatch = components['schemas']['UserPatch'];
export type VariantOut = components['schemas']['VariantOut'];
export type VariantsOut = components['schemas']['VariantsOut'];
export type VictimOut = components['schemas']['VictimOut'];
export type WaysOut = components['schemas']['WaysOut'];
export type WishIn = components['schemas']['WishIn'];
export type $defs = Record<string, never>;
export interface operations {
    list_audit_api_audit_get: {
        parameters: {
            query?: {
                /** @description `next` of the page before. */
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
    list_intents_api_backend_intents_get: {
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
                    "application/json": components["schemas"]["IntentOut"][];
                };
            };
        };
    };
    drop_intent_api_backend_intents__node___backend__delete: {
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
    revive_intent_api_backend_intents__node___backend__revive_post: {
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
                    "application/json": components["schemas"]["RetryOut"];
                };
            };
        };
    };
    list_catalog_api_backends_get: {
        parameters: {
            query?: {
                /** @description Entries on a page. More than 2000 are 2000. */
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
    delete_api_backends_delete__name__post: {
        parameters: {
            query?: {
                /** @description Wait for what is under way instead of being refused. */
                after?: boolean;
                /** @description Only say what would be done. */
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
                    "application/json": components["schemas"]["AdmittedOut"] | components["schemas"]["PlanOut"];
                };
            };
        };
    };
    galleries_api_backends_galleries_get: {
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
    refresh_galleries_api_backends_galleries_refresh_post: {
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
                    "application/json": components["schemas"]["RefreshOut"];
                };
            };
        };
    };
    install_external_api_backends_install_external_post: {
        parameters: {
            query?: {
                /** @description Wait for what is under way instead of being refused. */
                after?: boolean;
                /** @description Only say what would be done. */
                plan?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ExternalIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AdmittedOut"] | components["schemas"]["PlanOut"];
                };
            };
        };
    };
    install_api_backends_install__name__post: {
        parameters: {
            query?: {
                /** @description Wait for what is under way instead of being refused. */
                after?: boolean;
                /** @description Only say what would be done. */
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
                "application/json": components["schemas"]["InstallIn"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AdmittedOut"] | components["schemas"]["PlanOut"];
                };
            };
        };
    };
    job_api_backends_job__uid__get: {
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
                    "application/json": components["schemas"]["JobOut"];
                };
            };
        };
    };
    reinstall_api_backends_reinstall__name__post: {
        parameters: {
            query?: {
                /** @description Wait for what is under way instead of being refused. */
                after?: boolean;
                /** @description Only say what would be done. */
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
                "application/json": components["schemas"]["WishIn"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AdmittedOut"] | components["schemas"]["PlanOut"];
                };
            };
        };
    };
    roll_back_api_backends_rollback__name__post: {
        parameters: {
            query?: {
                /** @description Wait for what is under way instead of being refused. */
                after?: boolean;
                /** @description Only say what would be done. */
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
                    "application/json": components["schemas"]["AdmittedOut"] | components["schemas"]["PlanOut"];
                };
            };
        };
    };
    delete_from_system_api_backends_system_delete__name__post: {
        parameters: {
            query?: {
                /** @description Wait for what is under way instead of being refused. */
                after?: boolean;
                /** @description Only say what would be done. */
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
                    "application/json": components["schemas"]["AdmittedOut"] | components["schemas"]["PlanOut"];
                };
            };
        };
    };
    upgrade_api_backends_upgrade__name__post: {
        parameters: {
            query?: {
                /** @description Wait for what is under way instead of being refused. */
                after?: boolean;
                /** @description Only say what would be done. */
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
                "application/json": components["schemas"]["WishIn"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AdmittedOut"] | components["schemas"]["PlanOut"];
                };
            };
        };
    };
    upgrades_api_backends_upgrades_get: {
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
                        [key: string]: components["schemas"]["UpgradeOut"];
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
                    "application/json": components["schemas"]["UpgradesAppliedOut"];
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
                        [key: string]: components["schemas"]["UpgradeOut"];
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
    cluster_api_cluster_get: {
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
    events_api_events_get: {
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
    explain_api_explain_post: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ExplainIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExplainOut"];
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
            /** @description All of it is here, and is right. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FileTakenOut"];
                };
            };
            /** @description So far good; `X-File-Size` says how much is here. */
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
                /** @description Only tell. */
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
                    "application/json": components["schemas"]["FilesCollectedOut"];
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
                /** @description Only say what would be done. */
                plan?: boolean;
                /** @description Remove what an earlier file had brought and this one does not have. */
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
                    "application/json": components["schemas"]["FleetOut"];
                };
            };
        };
    };
    cluster_history_api_history_get: {
        parameters: {
            query?: {
                /** @description How far back. */
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
                    "application/json": components["schemas"]["PastOut"];
                };
            };
        };
    };
    join_commands_api_join_get: {
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
                    "application/json": components["schemas"]["KeyMade"];
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
                /** @description Revoke it also if no other admin key works. */
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
                    "application/json": components["schemas"]["KeyMade"];
                };
            };
        };
    };
    live_api_live_get: {
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
    who_am_i_api_me_get: {
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
                    "application/json": components["schemas"]["MeOut"];
                };
            };
        };
    };
    my_usage_api_me_usage_get: {
        parameters: {
            query?: {
                /** @description One or more of key, model, user, call, node, and day or hour. */
                by?: string;
                /** @description csv tells all rows, json the first 10,000. */
                format?: components["schemas"]["Format"];
                /** @description A day or a time; without a zone it is UTC. Default: 30 days ago. */
                from?: string | null;
                /** @description Not included. Default: now. */
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
    list_gallery_api_models_get: {
        parameters: {
            query?: {
                backend?: string;
                /** @description chat, completions, embeddings, transcriptions, speech, rerank … */
                capability?: string;
                /** @description Show variants behind the entry that names them. */
                collapse_variants?: boolean;
                /** @description Entries on a page. More than 2000 are 2000. */
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
                /** @description Wait for what is under way instead of being refused. */
                after?: boolean;
                /** @description Only say what would be done. */
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
                    "application/json": components["schemas"]["AskedModelOut"] | components["schemas"]["LoadPlanOut"];
                };
            };
        };
    };
    load_status_api_models__name__load_status_get: {
        parameters: {
            query?: {
                /** @description No load under way is no error: 204 instead of 404. */
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
            /** @description No load is under way, and `quiet` was said. */
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
                /** @description Wait for what is under way instead of being refused. */
                after?: boolean;
                /** @description Only say what would be done. */
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
                    "application/json": components["schemas"]["AskedModelOut"];
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
                    "application/json": components["schemas"]["CapabilitiesListOut"];
                };
            };
        };
    };
    get_model_config_api_models_config_json__name__get: {
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
    patch_model_as_ancestor_api_models_config_json__name__patch: {
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
                    "application/json": components["schemas"]["SavedOut"];
                };
            };
        };
    };
    get_model_api_models_config__name__get: {
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
                    "application/json": components["schemas"]["SavedOut"];
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
                    "application/json": components["schemas"]["SavedOut"];
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
                    "application/json": components["schemas"]["SavedOut"];
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
                    "application/json": components["schemas"]["AskedModelOut"];
                };
            };
        };
    };
    compare_api_models_diff__name__get: {
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
                    "application/json": components["schemas"]["DiffOut"];
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
                    "application/json": components["schemas"]["EstimateOut"];
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
                    "application/json": components["schemas"]["RefreshOut"];
                };
            };
        };
    };
    install_api_models_install__name__post: {
        parameters: {
            query?: {
                /** @description Only say what would be done. */
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
                    "application/json": components["schemas"]["AskedModelOut"] | components["schemas"]["ModelPlanOut"];
                };
            };
        };
    };
    model_job_api_models_job__uid__get: {
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
                    "application/json": components["schemas"]["JobOut"];
                };
            };
        };
    };
    rename_api_models_rename_post: {
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
                    "application/json": components["schemas"]["SavedOut"][];
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
    roll_back_api_models_rollback__name__post: {
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
                    "application/json": components["schemas"]["SavedOut"];
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
                "application/json": components["schemas"]["ApproveIn"] | null;
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApproveOut"];
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
                "application/json": components["schemas"]["ApproveIn"] | null;
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
                    "application/json": components["schemas"]["LogOut"];
                };
            };
        };
    };
    follow_log_api_nodes__node__backend_logs__key__stream_get: {
        parameters: {
            query?: {
                /** @description As `Last-Event-ID`, which wins. */
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
    collect_on_node_api_nodes__node__backends_collect_post: {
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
                    "application/json": components["schemas"]["CollectedOut"];
                };
            };
        };
    };
    delete_on_node_api_nodes__node__backends_delete_post: {
        parameters: {
            query?: {
                /** @description Wait for what is under way instead of being refused. */
                after?: boolean;
                /** @description Only say what would be done. */
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
                "application/json": components["schemas"]["NodeBackendIn"];
            };
        };
        responses: {
            /** @description A plan, or what was asked for already. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AdmittedOut"] | components["schemas"]["PlanOut"];
                };
            };
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AdmittedOut"];
                };
            };
        };
    };
    install_on_node_api_nodes__node__backends_install_post: {
        parameters: {
            query?: {
                /** @description Wait for what is under way instead of being refused. */
                after?: boolean;
                /** @description Only say what would be done. */
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
                "application/json": components["schemas"]["NodeInstallIn"];
            };
        };
        responses: {
            /** @description A plan, or what was asked for already. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AdmittedOut"] | components["schemas"]["PlanOut"];
                };
            };
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AdmittedOut"];
                };
            };
        };
    };
    reinstall_on_node_api_nodes__node__backends_reinstall_post: {
        parameters: {
            query?: {
                /** @description Wait for what is under way instead of being refused. */
                after?: boolean;
                /** @description Only say what would be done. */
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
                "application/json": components["schemas"]["NodeBackendIn"];
            };
        };
        responses: {
            /** @description A plan, or what was asked for already. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AdmittedOut"] | components["schemas"]["PlanOut"];
                };
            };
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AdmittedOut"];
                };
            };
        };
    };
    roll_back_on_node_api_nodes__node__backends_rollback_post: {
        parameters: {
            query?: {
                /** @description Wait for what is under way instead of being refused. */
                after?: boolean;
                /** @description Only say what would be done. */
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
                "application/json": components["schemas"]["NodeBackendIn"];
            };
        };
        responses: {
            /** @description A plan, or what was asked for already. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AdmittedOut"] | components["schemas"]["PlanOut"];
                };
            };
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AdmittedOut"];
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
                "application/json": components["schemas"]["StartIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StartedOut"];
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
                "application/json": components["schemas"]["StopIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StoppedOut"];
                };
            };
        };
    };
    upgrade_on_node_api_nodes__node__backends_upgrade_post: {
        parameters: {
            query?: {
                /** @description Wait for what is under way instead of being refused. */
                after?: boolean;
                /** @description Only say what would be done. */
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
                "application/json": components["schemas"]["NodeBackendIn"];
            };
        };
        responses: {
            /** @description A plan, or what was asked for already. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AdmittedOut"] | components["schemas"]["PlanOut"];
                };
            };
            /** @description Successful Response */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AdmittedOut"];
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
    node_history_api_nodes__node__history_get: {
        parameters: {
            query?: {
                /** @description How far back. */
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
                    "application/json": components["schemas"]["PastOut"];
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
    put_labels_api_nodes__node__labels_put: {
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
    patch_labels_api_nodes__node__labels_patch: {
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
                "application/json": components["schemas"]["SlotsIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SlotsOut"];
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
                    "application/json": components["schemas"]["SlotsOut"];
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
    delete_on_node_api_nodes__node__models_delete_post: {
        parameters: {
            query?: {
                /** @description Wait for what is under way instead of being refused. */
                after?: boolean;
                /** @description Only say what would be done. */
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
                    "application/json": components["schemas"]["AskedModelOut"];
                };
            };
        };
    };
    unload_on_node_api_nodes__node__models_unload_post: {
        parameters: {
            query?: {
                /** @description Wait for what is under way instead of being refused. */
                after?: boolean;
                /** @description Only say what would be done. */
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
                    "application/json": components["schemas"]["AskedModelOut"];
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
                    "application/json": components["schemas"]["ProbeOut"];
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
                    "application/json": components["schemas"]["ProcessOut"][];
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
                "application/json": components["schemas"]["BudgetIn"];
            };
        };
        responses: {
            /** @description Successful Response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BudgetOut"];
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
                    "application/json": components["schemas"]["BudgetOut"];
                };
            };
        };
    };
    list_loaded_api_nodes_models_get: {
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
    rules_as_ancestor_api_nodes_scheduling_get: {
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
    put_rule_as_ancestor_api_nodes_scheduling_post: {
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
    rule_as_ancestor_api_nodes_scheduling__name__get: {
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
    delete_rule_as_ancestor_api_nodes_scheduling__name__delete: {
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
                    "application/json": components["schemas"]["OperationInFull"];
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
                    "application/json": components["schemas"]["ActionOut"];
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
                    "application/json": components["schemas"]["ActionOut"];
                };
            };
        };
    };
    show_log_api_operations__operation_id__events_get: {
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
                    "application/json": components["schemas"]["NoteOut"][];
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
                    "application/json": components["schemas"]["ActionOut"];
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
                    "application/json": components["schemas"]["ActionOut"];
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
                    "application/json": components["schemas"]["RetryOut"];
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
                    "application/json": components["schemas"]["ActionOut"];
                };
            };
        };
    };
    operation_events_api_operations_events_get: {
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
                /** @description The `next` of the page before. */
                before?: string;
                /** @description One kind, or all of `backends`, `models` (installing, deleting) or `loads`. */
                kind?: ("backends" | "models" | "loads" | "backend_install" | "backend_upgrade" | "backend_reinstall" | "backend_rollback" | "backend_delete" | "model_install" | "model_load" | "model_stage" | "model_unload" | "model_delete") | null;
                limit?: number;
                /** @description Id or name of a node: only what it was a target of, alone or among others. Also of a node that is gone, by the id or the name that it had. */
                node?: string;
                /** @description How it ended. */
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
                    "application/json": components["schemas"]["HistoryOut"];
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
                    "application/json": components["schemas"]["ClearedOut"];
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
                "application/json": components["schemas"]["PlanIn"];
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
    rules_api_rules_get: {
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
    rule_api_rules__name__get: {
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
                    "application/json": components["schemas"]["MeOut"];
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
                    "application/json": components["schemas"]["MeOut"];
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
    begin_at_provider_api_session_oidc_get: {
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
    come_back_from_provider_api_session_oidc_callback_get: {
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
    list_ways_api_session_ways_get: {
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
                    "application/json": components["schemas"]["WaysOut"];
                };
            };
        };
    };
    settings_api_settings_get: {
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
    everything_api_stream_get: {
        parameters: {
            query?: {
                /** @description As `Last-Event-ID`, which wins. */
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
                    "application/json": components["schemas"]["TokenMade"];
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
    usage_api_usage_get: {
        parameters: {
            query?: {
                /** @description One or more of key, model, user, call, node, and day or hour. */
                by?: string;
                /** @description csv tells all rows, json the first 10,000. */
                format?: components["schemas"]["Format"];
                /** @description A day or a time; without a zone it is UTC. Default: 30 days ago. */
                from?: string | null;
                /** @description Not included. Default: now. */
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
    list_installed_backends_get: {
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
    toggle_pinned_models_toggle_pinned__name___action__put: {
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
                    "application/json": components["schemas"]["SavedOut"];
                };
            };
        };
    };
    toggle_state_models_toggle_state__name___action__put: {
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
                    "application/json": components["schemas"]["SavedOut"];
                };
            };
        };
    };
}
