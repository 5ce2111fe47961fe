"""The models, a file each, which gives `build(options, folder)`: its `task.Task`, in the size and
with the learning rate of the options. Layers that several have are in files with an underscore."""
