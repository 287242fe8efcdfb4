class Platform:
    cpu = False

    def is_cpu(self):
        return self.cpu


current_platform = Platform()
