"""What each kind of operation about a model does when it is looked at: load, install and stage, unload and delete."""
